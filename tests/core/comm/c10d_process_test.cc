// Ranks as real processes: the pairing of LibTorch's Gloo with the system's Gloo headers, and what survivors hear of a
// rank that was killed, stopped, failed or left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/comm/launcher.h"
#include "shardwright/core/comm/sockets.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kRank[] = "tests/core/comm/c10d_rank";
constexpr absl::Duration kLong = absl::Minutes(2);  // never reached in a good run
constexpr absl::Duration kGrace = absl::Seconds(1);

class C10dProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/c10d_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    setenv("OUT", folder_.c_str(), 1);
  }
  void TearDown() override {
    for (pid_t pid : ranks_) {
      if (pid > 0) kill(pid, SIGKILL);
      if (pid > 0) waitpid(pid, nullptr, 0);
    }
    EXPECT_EQ(std::system(absl::StrCat("rm -rf ", folder_).c_str()), 0);
  }

  static std::vector<std::string> Arguments(const std::string& mode, absl::Duration timeout) {
    return {kRank, mode, absl::StrCat(absl::ToInt64Milliseconds(timeout)),
            absl::StrCat(absl::ToInt64Milliseconds(kGrace))};
  }

  // Starts `size` ranks under torchrun's variables; rank 0 serves the store unless `more` says that an agent does.
  void Start(int size, const std::string& mode, absl::Duration timeout, int port,
             const std::map<std::string, std::string>& more = {}) {
    const std::vector<std::string> arguments = Arguments(mode, timeout);
    for (int rank = 0; rank < size; ++rank) {
      ranks_.push_back(fork());
      if (ranks_.back() != 0) continue;
      std::map<std::string, std::string> variables = more;
      variables["RANK"] = variables["LOCAL_RANK"] = absl::StrCat(rank);
      variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = absl::StrCat(size);
      variables["MASTER_ADDR"] = "localhost";
      variables["MASTER_PORT"] = absl::StrCat(port);
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      std::vector<char*> argv;
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      execv(kRank, argv.data());
      _exit(127);
    }
  }

  static int FreePort() {
    const absl::StatusOr<Listener> listener = ListenOnLoopback();
    if (!listener.ok()) return 0;
    close(listener->fd);
    return listener->port;
  }

  // Exit status, or 128 + signal.
  int Finish(int rank) {
    int status = 0;
    waitpid(std::exchange(ranks_[rank], 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string Status(int rank) const {
    std::ifstream file(absl::StrCat(folder_, "/status.", rank));
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // Of three ranks, 0 and 1 end with `matcher`.
  void ExpectSurvivorsHear(const ::testing::Matcher<std::string>& matcher) {
    for (int rank : {0, 1}) {
      EXPECT_EQ(Finish(rank), 4);
      EXPECT_THAT(Status(rank), matcher);
    }
  }

  std::string folder_;
  std::vector<pid_t> ranks_;
};

TEST_F(C10dProcessTest, LibTorchsGlooAndTheSystemsHeadersFitTogether) {
  Start(2, "well", kLong, FreePort());
  for (int rank : {0, 1}) {
    EXPECT_EQ(Finish(rank), 0);
    EXPECT_EQ(Status(rank), "OK");
  }
}

TEST_F(C10dProcessTest, UnderTorchrunsVariablesWithItsAgentsStoreAndARestart) {
  SW_ASSERT_OK_AND_ASSIGN(const auto store, HostStore(3));
  for (const char* attempt : {"0", "1"}) {
    Start(3, "well", kLong, store->port(),
          {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", attempt}});
    for (int rank : {0, 1, 2}) EXPECT_EQ(Finish(rank), 0) << Status(rank);
    ranks_.clear();
  }
}

TEST_F(C10dProcessTest, AKilledRankIsNamed) {
  Start(3, "kill", kLong, FreePort());
  ExpectSurvivorsHear(AllOf(StartsWith("UNAVAILABLE: Barrier: "), HasSubstr("rank 2 did not answer within 1s")));
}

TEST_F(C10dProcessTest, AStoppedRankIsNamedAfterTheDeadline) {
  Start(3, "stop", absl::Seconds(3), FreePort());
  ExpectSurvivorsHear(AllOf(StartsWith("DEADLINE_EXCEEDED: Barrier: timed out after 3s"),
                            HasSubstr("rank 2 did not answer within 1s")));
}

TEST_F(C10dProcessTest, ABusyRankIsNamedAfterTheDeadlineAndSaidToBeAlive) {
  Start(3, "sleep", absl::Seconds(3), FreePort());
  ExpectSurvivorsHear(AllOf(StartsWith("DEADLINE_EXCEEDED: Barrier: timed out after 3s"),
                            HasSubstr("rank 2 is alive but did not come to it")));
}

TEST_F(C10dProcessTest, AFailingRanksMessageReachesTheOthers) {
  Start(3, "fail", kLong, FreePort());
  ExpectSurvivorsHear(StartsWith("UNAVAILABLE: rank 2 failed: disk on fire"));
  EXPECT_EQ(Finish(2), 3);
}

TEST_F(C10dProcessTest, ARankThatLeavesEarlyIsNamed) {
  Start(3, "leave", kLong, FreePort());
  ExpectSurvivorsHear(AllOf(StartsWith("UNAVAILABLE: Barrier: "), HasSubstr("rank 2 has left the run")));
  EXPECT_EQ(Finish(2), 0);
}

TEST_F(C10dProcessTest, TheLossOfTheRankThatServesTheStoreIsTold) {
  Start(3, "kill0", kLong, FreePort());
  for (int rank : {1, 2}) {
    EXPECT_EQ(Finish(rank), 4);
    EXPECT_THAT(Status(rank),
                AllOf(StartsWith("UNAVAILABLE: Barrier: "), HasSubstr("the store of rank 0 at localhost:")));
  }
}

TEST_F(C10dProcessTest, AStoppedStoreHoldsNobodyUp) {
  Start(3, "stop0", absl::Seconds(3), FreePort());
  for (int rank : {1, 2}) {
    EXPECT_EQ(Finish(rank), 4);
    EXPECT_THAT(Status(rank), HasSubstr("the store of rank 0 at localhost:"));
  }
}

TEST_F(C10dProcessTest, WhoDoesNotComeIsNamed) {
  Start(3, "absent", absl::Seconds(3), FreePort());
  for (int rank : {0, 1}) {
    EXPECT_EQ(Finish(rank), 4);
    EXPECT_THAT(Status(rank), AllOf(StartsWith(absl::StrCat("DEADLINE_EXCEEDED: connecting rank ", rank, " of 3")),
                                    HasSubstr("rank 2 did not come within 3s")));
  }
}

TEST_F(C10dProcessTest, AStoreThatNobodyServesIsNamed) {
  Start(1, "well", absl::Seconds(2), FreePort(), {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(Finish(0), 0) << "a world of one needs no store";
  ranks_.clear();
  Start(2, "well", absl::Seconds(2), FreePort(), {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  for (int rank : {0, 1}) {
    EXPECT_EQ(Finish(rank), 4);
    EXPECT_THAT(Status(rank), AllOf(StartsWith("DEADLINE_EXCEEDED: connecting rank "),
                                    HasSubstr("the store of torchrun's agent at localhost:")));
  }
}

// The failing rank is the last to exit; the launcher still reports its status.
TEST_F(C10dProcessTest, UnderTheLauncherTheFirstFailureCounts) {
  SW_ASSERT_OK_AND_ASSIGN(const auto store, HostStore(3));
  EXPECT_EQ(store->FirstFailedRank(), std::nullopt);
  LaunchOptions options = {.ranks = 3, .store_port = store->port()};
  options.first_failed_rank = [&] { return store->FirstFailedRank(); };
  ::testing::internal::CaptureStderr();
  const absl::StatusOr<int> status = LaunchRanks(Arguments("fail", kLong), options);
  const std::string errors = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(status, testing::IsOkAndHolds(3));
  EXPECT_THAT(errors, EndsWith("rank 2 failed with exit status 3\n"));
  EXPECT_EQ(store->FirstFailedRank(), 2);
}

TEST_F(C10dProcessTest, UnderTheLauncherAKilledRankEndsAll) {
  SW_ASSERT_OK_AND_ASSIGN(const auto store, HostStore(3));
  LaunchOptions options = {.ranks = 3, .store_port = store->port()};
  options.first_failed_rank = [&] { return store->FirstFailedRank(); };
  ::testing::internal::CaptureStderr();
  const absl::StatusOr<int> status = LaunchRanks(Arguments("kill", kLong), options);
  const std::string errors = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(status, testing::IsOkAndHolds(128 + SIGKILL));
  EXPECT_THAT(errors, EndsWith("rank 2 was killed by SIGKILL\n"));
}

}  // namespace
}  // namespace shardwright
