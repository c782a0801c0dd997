#include "shardwright/core/comm/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class NodeGateTest : public ::testing::Test {
 protected:
  NodeGate Gate(int32_t capacity) const { return NodeGate(key_, capacity); }
  void TearDown() override { Gate(8).Remove(); }

  const std::string key_ =
      absl::StrCat("node_test/", getpid(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(NodeGateTest, LetsInAsManyAsThereArePlaces) {
  const NodeGate gate = Gate(2);
  auto first = gate.Enter(absl::ZeroDuration());
  auto second = gate.Enter(absl::ZeroDuration());
  EXPECT_THAT(first, IsOk());
  EXPECT_THAT(second, IsOk());
  EXPECT_THAT(gate.Enter(absl::ZeroDuration()), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(NodeGateTest, ATurnEndsWithItsScope) {
  const NodeGate gate = Gate(1);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(gate.Enter(absl::ZeroDuration()), IsOk());
}

TEST_F(NodeGateTest, AMovedTurnIsHeldOnce) {
  const NodeGate gate = Gate(1);
  std::optional<NodeGate::Turn> kept;
  {
    auto turn = gate.Enter(absl::ZeroDuration());
    ASSERT_THAT(turn, IsOk());
    kept.emplace(*std::move(turn));
  }
  EXPECT_THAT(gate.Enter(absl::ZeroDuration()), StatusIs(absl::StatusCode::kDeadlineExceeded));
  kept.reset();
  EXPECT_THAT(gate.Enter(absl::ZeroDuration()), IsOk());
}

TEST_F(NodeGateTest, TheDeadlineNamesTheHolders) {
  const NodeGate gate = Gate(1);
  auto turn = gate.Enter(absl::ZeroDuration());
  EXPECT_THAT(gate.Enter(absl::Milliseconds(30)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("no turn within 30ms"), HasSubstr(absl::StrCat("held by process ", getpid())))));
}

TEST_F(NodeGateTest, DifferentKeysAreDifferentGates) {
  const NodeGate one(key_ + "/a", 1), other(key_ + "_2fa", 1);
  auto turn = one.Enter(absl::ZeroDuration());
  EXPECT_THAT(other.Enter(absl::ZeroDuration()), IsOk());
  one.Remove();
  other.Remove();
}

TEST_F(NodeGateTest, NeverMoreInsideThanPlaces) {
  std::atomic<int> inside = 0, most = 0, passed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        auto turn = Gate(2).Enter(absl::Minutes(1));
        if (!turn.ok()) return;
        const int now = ++inside;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        absl::SleepFor(absl::Microseconds(100));
        --inside;
        ++passed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 60);
  EXPECT_EQ(most, 2);
}

TEST_F(NodeGateTest, AKilledHolderFreesItsPlace) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto turn = Gate(1).Enter(absl::ZeroDuration());
    const char byte = turn.ok() ? 'y' : 'n';
    [[maybe_unused]] const ssize_t written = write(ready[1], &byte, 1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_THAT(Gate(1).Enter(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr(absl::StrCat("process ", child))));
  kill(child, SIGKILL);
  EXPECT_THAT(Gate(1).Enter(absl::Minutes(1)), IsOk());
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_F(NodeGateTest, AGateThatWasRemovedIsMadeAnew) {
  const NodeGate gate = Gate(1);
  { auto turn = gate.Enter(absl::ZeroDuration()); }
  gate.Remove();
  auto turn = gate.Enter(absl::ZeroDuration());
  ASSERT_THAT(turn, IsOk());
  EXPECT_THAT(gate.Enter(absl::ZeroDuration()), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(NodeGateTest, AFileThatCannotBeMadeIsAnError) {
  const NodeGate gate(std::string(300, 'x'), 1);
  EXPECT_THAT(gate.Enter(absl::Minutes(1)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot open /dev/shm/")));
}

}  // namespace
}  // namespace shardwright
