// The launcher runs in a child of this test, so that it can be signalled and killed; its ranks are shell scripts.
#include "shardwright/core/comm/launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Long enough for any machine; nothing waits for it in a good run.
bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

class LauncherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/launcher_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    setenv("OUT", folder_.c_str(), 1);
    // Orphans come to us, so that we can see them end.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  void TearDown() override {
    if (launcher_ > 0) {
      kill(launcher_, SIGKILL);
      waitpid(launcher_, nullptr, 0);
    }
    EXPECT_TRUE(Eventually([] { return waitpid(-1, nullptr, WNOHANG) < 0; })) << "a child is left";
    EXPECT_EQ(std::system(absl::StrCat("rm -rf ", folder_).c_str()), 0);
  }

  // Starts a launcher of `ranks` shells, in a process group of its own as a shell would.
  void Start(
      const std::string& script, LaunchOptions options, const std::function<void()>& before = [] {}) {
    launcher_ = fork();
    if (launcher_ != 0) {
      setpgid(launcher_, launcher_);
      return;
    }
    setpgid(0, 0);
    const int fd = open((folder_ + "/stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 2);
    before();
    const absl::StatusOr<int> status = LaunchRanks({"/bin/sh", "-c", script}, options);
    _exit(status.ok() ? *status : 99);
  }

  // As a shell sees it: 128 + signal where the launcher itself was killed.
  int Finish() {
    int status = 0;
    EXPECT_EQ(waitpid(std::exchange(launcher_, 0), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  int Launch(const std::string& script, const LaunchOptions& options) {
    Start(script, options);
    return Finish();
  }

  bool AllReady(int ranks) const {
    return Eventually([&] {
      for (int i = 0; i < ranks; ++i) {
        if (access(absl::StrCat(folder_, "/ready.", i).c_str(), F_OK) != 0) return false;
      }
      return true;
    });
  }

  pid_t PidIn(const std::string& name) const {
    int pid = 0;
    EXPECT_TRUE(absl::SimpleAtoi(Read(folder_ + "/" + name), &pid)) << name;
    return pid;
  }

  // Ended, whoever has to bury it.
  static bool Gone(pid_t pid) {
    waitpid(pid, nullptr, WNOHANG);
    const std::string stat = Read(absl::StrCat("/proc/", pid, "/stat"));
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  }

  std::string Stderr() const { return Read(folder_ + "/stderr"); }

  std::string folder_;
  pid_t launcher_ = 0;
};

// Waits for signals without delay, as a shell does not while a child is in the foreground.
constexpr char kWait[] = "echo $$ > $OUT/pid.$RANK; touch $OUT/ready.$RANK; while :; do sleep 60 & wait; done";

TEST_F(LauncherTest, EveryRankKnowsWhoItIs) {
  setenv("RANK", "77", 1);
  setenv("MASTER_ADDR", "elsewhere", 1);
  EXPECT_EQ(Launch("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT "
                   "$SHARDWRIGHT_STORE_HOSTED > $OUT/env.$RANK",
                   {.ranks = 3, .store_port = 4711}),
            0);
  unsetenv("RANK");
  unsetenv("MASTER_ADDR");
  EXPECT_EQ(Read(folder_ + "/env.0"), "0 3 0 3 127.0.0.1 4711 1\n");
  EXPECT_EQ(Read(folder_ + "/env.1"), "1 3 1 3 127.0.0.1 4711 1\n");
  EXPECT_EQ(Read(folder_ + "/env.2"), "2 3 2 3 127.0.0.1 4711 1\n");
}

TEST_F(LauncherTest, CoresAreSharedUnlessTheUserSaysOtherwise) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(Launch("echo $OMP_NUM_THREADS > $OUT/threads.$RANK", {.ranks = 1000 / 250}), 0);
  int threads = 0;
  ASSERT_TRUE(absl::SimpleAtoi(Read(folder_ + "/threads.3"), &threads));
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  EXPECT_EQ(threads, std::max(1, CPU_COUNT(&cores) / 4));
  setenv("OMP_NUM_THREADS", "13", 1);
  EXPECT_EQ(Launch("echo $OMP_NUM_THREADS > $OUT/threads.$RANK", {.ranks = 2}), 0);
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(Read(folder_ + "/threads.1"), "13\n");
}

TEST_F(LauncherTest, StandardInputIsEmpty) {
  EXPECT_EQ(Launch("if read line; then exit 1; fi", {.ranks = 1}), 0);
}

TEST_F(LauncherTest, ARankThatEndsWellEndsNobody) {
  EXPECT_EQ(Launch("if [ $RANK = 0 ]; then touch $OUT/ready.0; exit 0; fi; "
                   "while [ ! -e $OUT/ready.0 ]; do sleep 0.01; done; sleep 0.3; touch $OUT/ready.1",
                   {.ranks = 2}),
            0);
  EXPECT_TRUE(AllReady(2));
  EXPECT_EQ(Stderr(), "");
}

TEST_F(LauncherTest, AFailingRankEndsAllAndItsStatusIsKept) {
  const std::string script = absl::StrCat(
      "if [ $RANK = 1 ]; then while [ ! -e $OUT/ready.0 -o ! -e $OUT/ready.2 ]; do sleep 0.01; done; "
      "echo mine is broken >&2; exit 3; fi; trap 'echo told to end >&2; exit 5' TERM; ",
      kWait);
  EXPECT_EQ(Launch(script, {.ranks = 3}), 3);
  EXPECT_THAT(Stderr(), AllOf(::testing::StartsWith("mine is broken\n"), HasSubstr("told to end\n"),
                              EndsWith("rank 1 failed with exit status 3\n")));
  EXPECT_TRUE(Gone(PidIn("pid.0")));
  EXPECT_TRUE(Gone(PidIn("pid.2")));
}

TEST_F(LauncherTest, AKilledRankIsNamedWithItsSignal) {
  EXPECT_EQ(Launch(absl::StrCat("if [ $RANK = 1 ]; then kill -KILL $$; fi; ", kWait), {.ranks = 2}), 128 + SIGKILL);
  EXPECT_THAT(Stderr(), EndsWith("rank 1 was killed by SIGKILL\n"));
}

TEST_F(LauncherTest, ARankThatWillNotEndIsKilledAfterTheGrace) {
  const std::string script = absl::StrCat(
      "if [ $RANK = 1 ]; then while [ ! -e $OUT/ready.0 ]; do sleep 0.01; done; exit 3; fi; trap '' TERM; ", kWait);
  EXPECT_EQ(Launch(script, {.ranks = 2, .grace = absl::Milliseconds(300)}), 3);
  EXPECT_TRUE(Gone(PidIn("pid.0")));
  EXPECT_THAT(Stderr(), EndsWith("rank 1 failed with exit status 3\n"));
}

// Rank 0 hears of rank 1's failure and is the first to exit; rank 1 has told the store.
TEST_F(LauncherTest, TheRankThatToldItsFailureTakesTheBlame) {
  LaunchOptions options = {.ranks = 3};
  options.first_failed_rank = [] { return 1; };
  const std::string script = absl::StrCat(
      "case $RANK in 0) exit 1;; 1) trap 'exit 9' TERM; while [ ! -e $OUT/told.2 ]; do sleep 0.01; done; exit 3;; "
      "esac; "
      "trap 'touch $OUT/told.2; exit 1' TERM; ",
      kWait);
  EXPECT_EQ(Launch(script, options), 3);
  EXPECT_THAT(Stderr(), EndsWith("rank 1 failed with exit status 3\n"));
}

TEST_F(LauncherTest, ARankThatIsWellTakesNoBlame) {
  LaunchOptions options = {.ranks = 2};
  options.first_failed_rank = [] { return 1; };
  EXPECT_EQ(Launch("if [ $RANK = 0 ]; then sleep 0.2; exit 4; fi", options), 4);
  EXPECT_THAT(Stderr(), EndsWith("rank 0 failed with exit status 4\n"));
}

TEST_F(LauncherTest, ASignalReachesEveryRankOnce) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ASSERT_EQ(std::system(absl::StrCat("rm -f ", folder_, "/*").c_str()), 0);
    const std::string script =
        absl::StrCat("trap 'echo got >> $OUT/got.$RANK; touch $OUT/caught.$RANK; sleep 0.2; exit ", 128 + signal,
                     "' INT TERM HUP; ", kWait);
    Start(script, {.ranks = 2});
    ASSERT_TRUE(AllReady(2));
    // As a terminal does: the signal goes to the launcher's whole group.
    ASSERT_EQ(kill(-launcher_, signal), 0);
    EXPECT_EQ(Finish(), 128 + signal);
    EXPECT_EQ(Read(folder_ + "/got.0"), "got\n");
    EXPECT_EQ(Read(folder_ + "/got.1"), "got\n");
    EXPECT_EQ(Stderr(), "");
  }
}

TEST_F(LauncherTest, RanksThatDieOfTheSignalAreNoFailure) {
  Start(kWait, {.ranks = 2});
  ASSERT_TRUE(AllReady(2));
  kill(launcher_, SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGTERM);
  EXPECT_EQ(Stderr(), "");
}

TEST_F(LauncherTest, AfterASignalSlowRanksMayTakeTheirTimeAndEndWell) {
  Start(absl::StrCat("trap 'sleep 0.5; exit 0' INT; ", kWait), {.ranks = 2, .grace = absl::Milliseconds(50)});
  ASSERT_TRUE(AllReady(2));
  kill(launcher_, SIGINT);
  EXPECT_EQ(Finish(), 0);
}

TEST_F(LauncherTest, AFailureAfterASignalIsStillAFailure) {
  Start(absl::StrCat("trap 'if [ $RANK = 1 ]; then exit 7; fi; exit 130' INT; ", kWait), {.ranks = 2});
  ASSERT_TRUE(AllReady(2));
  kill(launcher_, SIGINT);
  EXPECT_EQ(Finish(), 7);
  EXPECT_THAT(Stderr(), EndsWith("rank 1 failed with exit status 7\n"));
}

TEST_F(LauncherTest, ASecondSignalKills) {
  Start(absl::StrCat("trap 'touch $OUT/caught.$RANK' INT; ", kWait), {.ranks = 2});
  ASSERT_TRUE(AllReady(2));
  kill(launcher_, SIGINT);
  ASSERT_TRUE(Eventually([&] { return access((folder_ + "/caught.1").c_str(), F_OK) == 0; }));
  kill(launcher_, SIGINT);
  EXPECT_EQ(Finish(), 128 + SIGINT);
  EXPECT_TRUE(Gone(PidIn("pid.0")));
  EXPECT_TRUE(Gone(PidIn("pid.1")));
}

TEST_F(LauncherTest, AnIgnoredSignalStaysIgnored) {
  Start(kWait, {.ranks = 1}, [] { signal(SIGHUP, SIG_IGN); });
  ASSERT_TRUE(AllReady(1));
  kill(launcher_, SIGHUP);
  kill(launcher_, SIGTERM);
  EXPECT_EQ(Finish(), 128 + SIGTERM);
}

TEST_F(LauncherTest, AnIgnoredSigchldLosesNoStatus) {
  Start("exit 3", {.ranks = 1}, [] { signal(SIGCHLD, SIG_IGN); });
  EXPECT_EQ(Finish(), 3);
}

TEST_F(LauncherTest, AKilledLauncherLeavesNoOrphan) {
  Start("trap '' TERM INT HUP; echo $$ > $OUT/pid.$RANK; touch $OUT/ready.$RANK; exec sleep 600", {.ranks = 3});
  ASSERT_TRUE(AllReady(3));
  const std::vector<pid_t> ranks = {PidIn("pid.0"), PidIn("pid.1"), PidIn("pid.2")};
  kill(launcher_, SIGKILL);
  EXPECT_EQ(Finish(), 128 + SIGKILL);
  for (pid_t rank : ranks) EXPECT_TRUE(Eventually([&] { return Gone(rank); })) << rank;
}

TEST_F(LauncherTest, WhatARankStartedEndsWithIt) {
  EXPECT_EQ(Launch("sleep 600 & echo $! > $OUT/helper; exit 0", {.ranks = 1}), 0);
  const pid_t helper = PidIn("helper");
  EXPECT_TRUE(Eventually([&] { return Gone(helper); }));
}

TEST_F(LauncherTest, AProgramThatCannotBeStarted) {
  EXPECT_THAT(LaunchRanks({"/no/such/program"}, {.ranks = 2}),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("launching rank 0 of 2: starting /no/such/program"),
                                                          HasSubstr("No such file"))));
  EXPECT_THAT(LaunchRanks({"/etc/passwd"}, {.ranks = 1}), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(LaunchRanks({}, {}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(LaunchRanks({"/bin/true"}, {.ranks = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got 0")));
}

}  // namespace
}  // namespace shardwright
