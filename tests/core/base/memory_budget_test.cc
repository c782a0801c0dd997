#include "shardwright/core/base/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MemoryBudget, CountsWhatIsOutAndRemembersThePeak) {
  MemoryBudget budget(100);
  {
    SW_ASSERT_OK_AND_ASSIGN(const MemoryBudget::Reservation a, budget.Reserve(60, "a"));
    SW_ASSERT_OK_AND_ASSIGN(const MemoryBudget::Reservation b, budget.Reserve(40, "b"));
    EXPECT_EQ(budget.used_bytes(), 100u);
  }
  SW_ASSERT_OK_AND_ASSIGN(const MemoryBudget::Reservation c, budget.Reserve(10, "c"));
  EXPECT_EQ(budget.used_bytes(), 10u);
  EXPECT_EQ(budget.peak_bytes(), 100u);
  budget.ResetPeak();
  EXPECT_EQ(budget.peak_bytes(), 10u);
}

TEST(MemoryBudget, RefusesMoreThanTheWholeNamingNeedAndAllowance) {
  MemoryBudget budget(1024);
  EXPECT_THAT(budget.Reserve(2048, "tensor wq"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("2.00 KiB"), HasSubstr("tensor wq"), HasSubstr("1.00 KiB"))));
  EXPECT_EQ(budget.peak_bytes(), 0u);
}

TEST(MemoryBudget, TryReserveDoesNotWait) {
  MemoryBudget budget(100);
  SW_ASSERT_OK_AND_ASSIGN(MemoryBudget::Reservation held, budget.TryReserve(60, "a"));
  EXPECT_THAT(budget.TryReserve(41, "tensor wk"),
              StatusIs(absl::StatusCode::kResourceExhausted, AllOf(HasSubstr("tensor wk"), HasSubstr("60 B"))));
  held.Release();
  EXPECT_THAT(budget.TryReserve(100, "c"), IsOk());
}

TEST(MemoryBudget, ReserveGivesUpAtItsDeadline) {
  MemoryBudget budget(100);
  SW_ASSERT_OK_AND_ASSIGN(MemoryBudget::Reservation held, budget.Reserve(60, "a"));
  EXPECT_THAT(budget.Reserve(41, "late", absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("late")));
  // Whoever gave up no longer stands in the way.
  EXPECT_THAT(budget.TryReserve(40, "b"), IsOk());
}

TEST(MemoryBudget, UnlimitedTakesEverything) {
  MemoryBudget budget;
  SW_ASSERT_OK_AND_ASSIGN(const MemoryBudget::Reservation most, budget.Reserve(MemoryBudget::kUnlimited - 1, "most"));
  EXPECT_THAT(budget.TryReserve(2, "overflow"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(budget.TryReserve(1, "rest"), IsOk());
}

TEST(MemoryBudget, MovingGivesBackOnceAndOnlyOnce) {
  MemoryBudget budget(100);
  SW_ASSERT_OK_AND_ASSIGN(MemoryBudget::Reservation a, budget.Reserve(30, "a"));
  MemoryBudget::Reservation b = std::move(a);
  EXPECT_EQ(a.bytes(), 0u);  // NOLINT: a moved-from reservation is empty by contract
  EXPECT_EQ(b.bytes(), 30u);
  SW_ASSERT_OK_AND_ASSIGN(MemoryBudget::Reservation c, budget.Reserve(50, "c"));
  c = std::move(b);
  EXPECT_EQ(budget.used_bytes(), 30u);
  c.Release();
  c.Release();
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_EQ(c.bytes(), 0u);
}

TEST(MemoryBudget, ALargeRequestIsNotStarvedBySmallOnes) {
  MemoryBudget budget(100);
  SW_ASSERT_OK_AND_ASSIGN(MemoryBudget::Reservation half, budget.Reserve(50, "half"));
  std::atomic<bool> large_done = false;
  std::thread large([&] {
    absl::StatusOr<MemoryBudget::Reservation> all = budget.Reserve(100, "large");
    ASSERT_THAT(all, IsOk());
    large_done = true;
  });
  // As soon as the large request waits, a small one is refused although its bytes are free.
  while (budget.TryReserve(1, "probe").ok()) std::this_thread::yield();
  EXPECT_THAT(budget.TryReserve(1, "small"), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("wait")));
  EXPECT_THAT(budget.Reserve(1, "small", absl::Milliseconds(1)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(large_done);
  half.Release();
  large.join();
  EXPECT_TRUE(large_done);
}

TEST(MemoryBudget, AnAbandonedTicketDoesNotBlockTheQueue) {
  MemoryBudget budget(100);
  SW_ASSERT_OK_AND_ASSIGN(MemoryBudget::Reservation held, budget.Reserve(100, "held"));
  std::thread behind;
  EXPECT_THAT(budget.Reserve(100, "gives up", absl::Milliseconds(1)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  behind = std::thread([&] { EXPECT_THAT(budget.Reserve(10, "behind"), IsOk()); });
  held.Release();
  behind.join();
}

TEST(MemoryBudget, ManyThreadsNeverOvershoot) {
  constexpr uint64_t kLimit = 1000;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  MemoryBudget budget(kLimit);
  std::atomic<uint64_t> out = 0;
  std::atomic<bool> overshot = false;
  constexpr int kThreads = 8;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      for (int i = 0; i < 500; ++i) {
        const uint64_t bytes = random() % (kLimit + 1);
        absl::StatusOr<MemoryBudget::Reservation> held = budget.Reserve(bytes, "x");
        ASSERT_THAT(held, IsOk());
        if (out.fetch_add(bytes) + bytes > kLimit) overshot = true;
        out.fetch_sub(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(overshot);
  EXPECT_LE(budget.peak_bytes(), kLimit);
  EXPECT_EQ(budget.used_bytes(), 0u);
}

}  // namespace
}  // namespace shardwright
