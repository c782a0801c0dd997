#include "shardwright/core/device/page_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace shardwright {
namespace {

constexpr uint64_t kPage = 4096;

// Whether the page is part of the address space.
bool Mapped(void* page) {
  unsigned char resident;
  return ::mincore(page, 1, &resident) == 0 || errno != ENOMEM;
}

// Frees what was allocated, so that the pool may end.
class PagePoolTest : public ::testing::Test {
 protected:
  char* Allocate(uint64_t bytes) { return static_cast<char*>(pool.Allocate(bytes)); }
  uint64_t kept() const { return pool.counters().kept_bytes; }
  uint64_t in_use() const { return pool.counters().in_use_bytes; }
  uint64_t mapped() const { return pool.counters().mapped_bytes; }

  PagePool pool;
};

TEST_F(PagePoolTest, BlocksAreAlignedAndAllOfThemIsUsable) {
  for (const uint64_t bytes : {uint64_t{1}, kPage - 1, kPage, kPage + 1, 100 * kPage}) {
    char* block = Allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kPage, 0) << bytes;
    std::memset(block, 0x5A, bytes);
    EXPECT_EQ(block[bytes - 1], 0x5A);
    EXPECT_TRUE(pool.Free(block));
  }
}

TEST_F(PagePoolTest, NullForNothingAndForWhatTheSystemHasNot) {
  EXPECT_EQ(Allocate(0), nullptr);
  EXPECT_EQ(Allocate(uint64_t{1} << 60), nullptr);
  EXPECT_EQ(Allocate(UINT64_MAX), nullptr);
  EXPECT_EQ(in_use(), 0);
}

TEST_F(PagePoolTest, FreesItsOwnBlocksAlone) {
  int other = 0;
  EXPECT_FALSE(pool.Free(&other));
  EXPECT_FALSE(pool.Free(nullptr));
  char* block = Allocate(2 * kPage);
  EXPECT_FALSE(pool.Free(block + kPage));
  EXPECT_TRUE(pool.Free(block));
  EXPECT_FALSE(pool.Free(block));
}

TEST_F(PagePoolTest, ReturnsWhatIsFreedUnlessItKeeps) {
  char* block = Allocate(3 * kPage);
  EXPECT_EQ(in_use(), 3 * kPage);
  pool.Free(block);
  EXPECT_EQ(in_use(), 0);
  EXPECT_EQ(kept(), 0);
  EXPECT_FALSE(Mapped(block));
}

TEST_F(PagePoolTest, KeptPagesServeTheNextBlock) {
  pool.BeginKeeping();
  char* block = Allocate(3 * kPage);
  pool.Free(block);
  EXPECT_EQ(kept(), 3 * kPage);
  EXPECT_TRUE(Mapped(block));
  EXPECT_EQ(Allocate(3 * kPage), block);
  EXPECT_EQ(kept(), 0);
  EXPECT_EQ(mapped(), 3 * kPage);
  EXPECT_EQ(pool.counters().allocated_bytes, 6 * kPage);
  pool.Free(block);
}

TEST_F(PagePoolTest, TakesTheSmallestThatFits) {
  pool.BeginKeeping();
  char* large = Allocate(9 * kPage);
  char* between = Allocate(kPage);
  char* small = Allocate(4 * kPage);
  char* end = Allocate(kPage);
  pool.Free(large);
  pool.Free(small);
  EXPECT_EQ(Allocate(4 * kPage), small);
  for (char* block : {between, small, end}) pool.Free(block);
}

TEST_F(PagePoolTest, CutsAndJoins) {
  pool.BeginKeeping();
  char* whole = Allocate(8 * kPage);
  pool.Free(whole);
  std::vector<char*> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(Allocate(2 * kPage));
  EXPECT_EQ(mapped(), 8 * kPage) << "cut from what was kept";
  for (const int i : {2, 0, 3, 1}) pool.Free(parts[i]);
  EXPECT_EQ(Allocate(8 * kPage), whole) << "joined, in whatever order they were freed";
  pool.Free(whole);
}

TEST_F(PagePoolTest, KeepingDoesNotRaiseThePeak) {
  pool.BeginKeeping();
  pool.Free(Allocate(10 * kPage));
  // Larger than anything kept: what is kept has to go.
  char* second = Allocate(12 * kPage);
  EXPECT_EQ(kept(), 0);
  pool.Free(second);
  char* third = Allocate(5 * kPage);
  EXPECT_EQ(kept(), 7 * kPage) << "12 pages were in use once";
  char* fourth = Allocate(8 * kPage);
  EXPECT_EQ(kept(), 0) << "and are not enough any more";
  EXPECT_EQ(pool.counters().most_in_use_bytes, 13 * kPage);
  pool.Free(third);
  pool.Free(fourth);
}

TEST_F(PagePoolTest, ReturnsOnlyAsMuchAsIsInTheWay) {
  pool.BeginKeeping();
  char* first = Allocate(10 * kPage);
  char* between = Allocate(kPage);
  char* second = Allocate(4 * kPage);
  pool.Free(first);
  pool.Free(second);
  char* third = Allocate(12 * kPage);  // 15 pages were in use, 1 is: 2 of the 14 that are kept may stay
  EXPECT_EQ(kept(), 2 * kPage);
  pool.Free(between);
  pool.Free(third);
}

TEST_F(PagePoolTest, KeepsWhatItHasUntilItIsReturned) {
  pool.BeginKeeping();
  char* early = Allocate(2 * kPage);
  char* late = Allocate(3 * kPage);
  pool.Free(early);
  pool.EndKeeping();
  EXPECT_EQ(kept(), 2 * kPage);
  pool.Free(late);
  EXPECT_EQ(kept(), 2 * kPage) << "freed when nobody keeps";
  pool.ReturnKept();
  EXPECT_EQ(kept(), 0);
  EXPECT_FALSE(Mapped(early));
}

TEST_F(PagePoolTest, PairsOfKeepingMayOverlap) {
  pool.BeginKeeping();
  pool.BeginKeeping();
  pool.EndKeeping();
  pool.Free(Allocate(kPage));
  EXPECT_EQ(kept(), kPage);
  pool.EndKeeping();
  pool.Free(Allocate(kPage));
  EXPECT_EQ(kept(), 0);
}

// Allocates and frees at random; every block keeps what was written into it.
void Churn(PagePool& pool, uint32_t seed, int rounds) {
  struct Block {
    char* data;
    uint64_t bytes;
    char mark;
  };
  std::mt19937 random(seed);
  std::vector<Block> blocks;
  const auto free_one = [&] {
    std::swap(blocks[random() % blocks.size()], blocks.back());
    const auto [data, bytes, mark] = blocks.back();
    blocks.pop_back();
    for (uint64_t at = 0; at < bytes; at += kPage / 2) ASSERT_EQ(data[at], mark);
    ASSERT_TRUE(pool.Free(data));
  };
  for (int i = 0; i < rounds; ++i) {
    if (blocks.size() > 20 || (!blocks.empty() && random() % 2 == 0)) {
      free_one();
    } else {
      const uint64_t bytes = 1 + random() % (40 * kPage);
      blocks.push_back({static_cast<char*>(pool.Allocate(bytes)), bytes, static_cast<char>(random())});
      ASSERT_NE(blocks.back().data, nullptr);
      std::memset(blocks.back().data, blocks.back().mark, bytes);
    }
    const PagePool::Counters counters = pool.counters();
    ASSERT_LE(counters.in_use_bytes + counters.kept_bytes, counters.most_in_use_bytes);
    if (i % 1000 == 999) pool.ReturnKept();
  }
  while (!blocks.empty()) free_one();
}

TEST_F(PagePoolTest, BlocksNeverOverlapAndThePeakHolds) {
  pool.BeginKeeping();
  Churn(pool, /*seed=*/1, /*rounds=*/5000);
  EXPECT_EQ(in_use(), 0);
  pool.ReturnKept();
  EXPECT_EQ(kept(), 0);
}

TEST_F(PagePoolTest, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      pool.BeginKeeping();
      Churn(pool, seed, /*rounds=*/1000);
      pool.EndKeeping();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(in_use(), 0);
}

}  // namespace
}  // namespace shardwright
