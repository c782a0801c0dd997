#include "shardwright/core/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace shardwright {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

std::vector<int64_t> Epoch(const Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < sampler.samples(); ++i) order.push_back(sampler.At(epoch * sampler.samples() + i));
  return order;
}

bool IsPermutation(const std::vector<int64_t>& order) {
  std::vector<bool> seen(order.size(), false);
  for (int64_t index : order) {
    if (index < 0 || index >= static_cast<int64_t>(order.size()) || seen[index]) return false;
    seen[index] = true;
  }
  return true;
}

TEST(SamplerTest, EveryEpochIsAPermutationForEverySmallSize) {
  for (int64_t n = 1; n <= 300; ++n) {
    const Sampler sampler(n, /*seed=*/n);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_TRUE(IsPermutation(Epoch(sampler, epoch))) << "n " << n << " epoch " << epoch;
    }
  }
}

TEST(SamplerTest, EveryEpochIsAPermutationForLargeSizes) {
  for (int64_t n : {4096, 65536, 65537, 99991, 1048575, 1048577}) {
    EXPECT_TRUE(IsPermutation(Epoch(Sampler(n, 7), 5))) << n;
  }
}

TEST(SamplerTest, HugeSizesStayInRangeWithoutRepeats) {
  const int64_t n = (int64_t{1} << 61) + 12345;
  const Sampler sampler(n, 3);
  std::set<int64_t> seen;
  for (int64_t position = 0; position < 1000; ++position) {
    const int64_t index = sampler.At(position);
    EXPECT_GE(index, 0);
    EXPECT_LT(index, n);
    EXPECT_TRUE(seen.insert(index).second);
  }
}

TEST(SamplerTest, EpochsAndSeedsDiffer) {
  const Sampler sampler(100, 1);
  EXPECT_NE(Epoch(sampler, 0), Epoch(sampler, 1));
  EXPECT_NE(Epoch(sampler, 1), Epoch(sampler, 2));
  EXPECT_NE(Epoch(sampler, 0), Epoch(Sampler(100, 2), 0));
  EXPECT_EQ(Epoch(sampler, 4), Epoch(Sampler(100, 1), 4));
}

TEST(SamplerTest, AShuffleIsNotTheIdentity) {
  const std::vector<int64_t> order = Epoch(Sampler(1000, 11), 0);
  int64_t fixed = 0, ascents = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    fixed += order[i] == i;
    ascents += i > 0 && order[i] > order[i - 1];
  }
  EXPECT_LT(fixed, 10);     // one is expected
  EXPECT_GT(ascents, 400);  // 500 are expected
  EXPECT_LT(ascents, 600);
}

// Each index is as likely at each place: over many seeds, the first place of five sees every index about equally often.
TEST(SamplerTest, SmallDomainsAreSpreadEvenly) {
  std::vector<int> counts(5, 0);
  for (uint64_t seed = 0; seed < 5000; ++seed) ++counts[Sampler(5, seed).At(0)];
  for (int count : counts) {
    EXPECT_GT(count, 850);
    EXPECT_LT(count, 1150);
  }
}

TEST(SamplerTest, WithoutShuffleTheOrderIsNatural) {
  EXPECT_THAT(Sampler(3, 9, /*shuffle=*/false).Slice(1, 5, 0, 1), ElementsAre(1, 2, 0, 1, 2));
}

TEST(SamplerTest, SlicesOfAllRanksAreTheBatchInOrder) {
  const uint32_t seed = 20240117;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    const Sampler sampler(1 + random() % 500, random());
    const int32_t world = 1 + random() % 7;
    const int64_t count = world * (1 + random() % 9);
    const int64_t position = random() % 2000;
    std::vector<int64_t> joined;
    for (int32_t rank = 0; rank < world; ++rank) {
      const std::vector<int64_t> slice = sampler.Slice(position, count, rank, world);
      EXPECT_EQ(static_cast<int64_t>(slice.size()), count / world);
      joined.insert(joined.end(), slice.begin(), slice.end());
    }
    EXPECT_THAT(joined, ElementsAreArray(sampler.Slice(position, count, 0, 1)));
  }
}

TEST(SamplerDeathTest, ImpossibleArgumentsAreBrokenInvariants) {
  EXPECT_DEATH(Sampler(0, 1), "samples > 0");
  EXPECT_DEATH(Sampler(5, 1).Slice(0, 5, 0, 2), "count % world_size");
}

}  // namespace
}  // namespace shardwright
