#include "shardwright/core/comm/failure_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;

class MemoryStore final : public KeyValueStore {
 public:
  absl::Status Set(absl::string_view key, absl::string_view value) override {
    absl::MutexLock lock(&mu_);
    if (gone_) return Gone();
    values_[std::string(key)] = std::string(value);
    return absl::OkStatus();
  }
  absl::Status SetAll(const std::vector<std::string>& keys, absl::string_view value) override {
    for (const std::string& key : keys) SW_RETURN_IF_ERROR(Set(key, value));
    return absl::OkStatus();
  }
  absl::Status SetIfAbsent(absl::string_view key, absl::string_view value) override {
    absl::MutexLock lock(&mu_);
    if (gone_) return Gone();
    values_.emplace(std::string(key), std::string(value));
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) override {
    absl::MutexLock lock(&mu_);
    if (gone_) return Gone();
    const auto found = values_.find(std::string(key));
    return found == values_.end() ? std::nullopt : std::make_optional(found->second);
  }
  absl::StatusOr<bool> HasAll(const std::vector<std::string>& keys) override {
    absl::MutexLock lock(&mu_);
    ++questions_;
    if (gone_) return Gone();
    return Has(keys);
  }
  absl::StatusOr<int64_t> Increment(absl::string_view key) override {
    absl::MutexLock lock(&mu_);
    if (gone_) return Gone();
    return ++counters_[std::string(key)];
  }
  absl::StatusOr<bool> WaitForAll(const std::vector<std::string>& keys, absl::Duration timeout) override {
    absl::MutexLock lock(&mu_);
    const auto there = [&] {
      mu_.AssertHeld();
      return gone_ || Has(keys);
    };
    mu_.AwaitWithTimeout(absl::Condition(&there), timeout);
    if (gone_) return Gone();
    return Has(keys);
  }

  void Vanish() {
    absl::MutexLock lock(&mu_);
    gone_ = true;
  }
  int questions() const {
    absl::MutexLock lock(&mu_);
    return questions_;
  }

 private:
  static absl::Status Gone() { return absl::UnavailableError("connection refused"); }
  bool Has(const std::vector<std::string>& keys) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
      mu_.AssertReaderHeld();
      return values_.count(key) > 0;
    });
  }

  mutable absl::Mutex mu_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> counters_ ABSL_GUARDED_BY(mu_);
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
  int questions_ ABSL_GUARDED_BY(mu_) = 0;
};

class FailureBoardTest : public ::testing::Test {
 protected:
  std::unique_ptr<FailureBoard> Board(int32_t rank, int32_t size = 3, absl::Duration grace = absl::Milliseconds(60)) {
    return std::make_unique<FailureBoard>(store_, "the store of rank 0", rank, size, grace);
  }
  static absl::Status Lost() { return absl::UnavailableError("lost the connection to a peer"); }
  static absl::Status Late() { return absl::DeadlineExceededError("timed out after 1m"); }
  static absl::Status Explain(FailureBoard& board, const BrokenCall& call) {
    board.PostBroken(call);
    return board.Explain(call);
  }
  // As a watcher does that has been woken once.
  void Answer(FailureBoard& board) { EXPECT_TRUE(board.AwaitAlarm(store_, 0)->has_value()); }

  MemoryStore store_;
};

TEST_F(FailureBoardTest, APostedFailureIsTheAnswerAtOnce) {
  auto failing = Board(1), survivor = Board(0, 3, absl::Hours(1));
  EXPECT_TRUE(failing->PostFailure("data", absl::DataLossError("bad chunk | in \"wq\"")));
  EXPECT_THAT(Explain(*survivor, {"data", "Barrier", Lost()}),
              StatusIs(absl::StatusCode::kUnavailable, Eq("rank 1 failed: bad chunk | in \"wq\"")));
}

TEST_F(FailureBoardTest, AFailurePostedWhileOneWaitsIsHeard) {
  auto failing = Board(1), survivor = Board(0, 3, absl::Hours(1));
  survivor->PostBroken({"data", "Barrier", Lost()});
  std::thread later([&] { failing->PostFailure("data", absl::DataLossError("bad chunk")); });
  EXPECT_THAT(survivor->Explain({"data", "Barrier", Lost()}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1")));
  later.join();
}

TEST_F(FailureBoardTest, TheFirstFailureStays) {
  auto first = Board(2), second = Board(1), survivor = Board(0);
  EXPECT_TRUE(first->PostFailure("data", absl::DataLossError("one")));
  EXPECT_TRUE(second->PostFailure("control", absl::DataLossError("two")));
  EXPECT_THAT(Explain(*survivor, {"control", "Barrier", Lost()}),
              StatusIs(absl::StatusCode::kUnavailable, Eq("rank 2 failed: one")));
}

TEST_F(FailureBoardTest, WhoFailsBecauseOfAnotherPostsNoFailureOfItsOwn) {
  auto dead_seen_by = Board(0), survivor = Board(1);
  const absl::Status explained = Explain(*dead_seen_by, {"data", "Barrier", Lost()});
  EXPECT_FALSE(dead_seen_by->PostFailure("control", explained));
  EXPECT_THAT(Explain(*survivor, {"data", "Barrier", Lost()}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 2 did not answer")));
}

TEST_F(FailureBoardTest, WhoDoesNotAnswerIsNamed) {
  auto board = Board(0);
  store_.Set("alive/1", "1").IgnoreError();
  EXPECT_THAT(Explain(*board, {"data", "AllReduce(sum of 2 F32)", Lost()}),
              StatusIs(absl::StatusCode::kUnavailable,
                       Eq("AllReduce(sum of 2 F32): lost the connection to a peer: rank 2 did not answer within 60ms "
                          "(killed, stopped or cut off)")));
}

TEST_F(FailureBoardTest, WhoIsAliveButElsewhereIsToldApart) {
  auto board = Board(0);
  store_.Set("alive/1", "1").IgnoreError();
  store_.Set("alive/2", "1").IgnoreError();
  EXPECT_THAT(Explain(*board, {"data", "Barrier", Late()}),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       Eq("Barrier: timed out after 1m: ranks 1, 2 are alive but did not come to it")));
}

TEST_F(FailureBoardTest, WhoHasLeftIsToldApart) {
  auto board = Board(0);
  store_.Set("left/2", "").IgnoreError();
  EXPECT_THAT(Explain(*board, {"data", "Barrier", Lost()}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 2 has left the run")));
}

TEST_F(FailureBoardTest, AllReportWhatTheFirstSaw) {
  auto first = Board(0, 2), second = Board(1, 2);
  first->PostBroken({"data", "Barrier", Late()});
  second->PostBroken({"data", "Broadcast(1 U8 from rank 0)", Lost()});
  for (FailureBoard* board : {first.get(), second.get()}) {
    EXPECT_THAT(board->Explain({"data", "call", Lost()}),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("timed out after 1m: every rank is alive"),
                               HasSubstr("rank 0 was in Barrier, rank 1 was in Broadcast(1 U8 from rank 0)"))));
  }
}

TEST_F(FailureBoardTest, GroupsAreApart) {
  auto board = Board(0, 2), other = Board(1, 2);
  other->PostBroken({"control", "Barrier", Late()});
  EXPECT_THAT(Explain(*board, {"data", "Barrier", Lost()}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1 did not answer")));
}

TEST_F(FailureBoardTest, WithoutTheStoreOneSaysSo) {
  auto board = Board(1);
  store_.Vanish();
  EXPECT_THAT(Explain(*board, {"data", "Barrier", Lost()}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("Barrier: lost the connection to a peer"),
                             HasSubstr("the store of rank 0 is gone, too"), HasSubstr("connection refused"))));
}

TEST_F(FailureBoardTest, WhatTheWatcherHeardOutlivesTheStore) {
  auto failing = Board(0), survivor = Board(1);
  failing->PostFailure("data", absl::DataLossError("bad chunk"));
  Answer(*survivor);
  store_.Vanish();
  EXPECT_THAT(Explain(*survivor, {"data", "Barrier", Lost()}),
              StatusIs(absl::StatusCode::kUnavailable, Eq("rank 0 failed: bad chunk")));
}

TEST_F(FailureBoardTest, AnAlarmReachesEveryWatcherAndIsAnswered) {
  auto board = Board(0), other = Board(1);
  board->PostBroken({"checkpoint", "Barrier", Lost()});
  board->PostBroken({"data", "Barrier", Lost()});
  EXPECT_THAT(other->AwaitAlarm(store_, 0), IsOkAndHolds(std::optional<std::string>("checkpoint")));
  EXPECT_THAT(other->AwaitAlarm(store_, 1), IsOkAndHolds(std::optional<std::string>("data")));
  EXPECT_THAT(store_.Get("alive/1"), IsOkAndHolds(std::optional<std::string>("1")));
}

TEST_F(FailureBoardTest, AWatcherCanBeStopped) {
  auto board = Board(0);
  std::thread watcher([&] { EXPECT_THAT(board->AwaitAlarm(store_, 0), IsOkAndHolds(std::optional<std::string>())); });
  EXPECT_TRUE(board->StopWatching().ok());
  watcher.join();
  EXPECT_THAT(board->AwaitAlarm(store_, 1), IsOkAndHolds(std::optional<std::string>()));
}

TEST_F(FailureBoardTest, FewMissingOfManyAreFoundInFewQuestions) {
  auto board = Board(0, 1024);
  for (int32_t rank = 0; rank < 1024; ++rank) {
    if (rank != 17 && rank != 1000) store_.Set(absl::StrCat("here/", rank), "").IgnoreError();
  }
  EXPECT_THAT(board->Missing("here"), IsOkAndHolds(std::vector<int32_t>({17, 1000})));
  EXPECT_LE(store_.questions(), 50);
}

TEST(NameRanksTest, ShortAndLongLists) {
  EXPECT_EQ(NameRanks({3}), "rank 3");
  EXPECT_EQ(NameRanks({1, 2}), "ranks 1, 2");
  EXPECT_EQ(NameRanks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace
}  // namespace shardwright
