#include "shardwright/core/plan/save_assign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace shardwright {
namespace {

uint64_t Sum(const std::vector<uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

std::vector<uint64_t> LoadsOf(const std::vector<AssignedBox>& assigned, int32_t world_size) {
  std::vector<uint64_t> loads(world_size, 0);
  for (const AssignedBox& box : assigned) loads[box.rank] += box.bytes;
  return loads;
}

TEST(EvenSharesTest, FillsTheLeastLoadedFirst) {
  EXPECT_EQ(EvenShares({10, 0, 5}, 5), (std::vector<uint64_t>{0, 5, 0}));
  EXPECT_EQ(EvenShares({10, 0, 5}, 15), (std::vector<uint64_t>{0, 10, 5}));
  EXPECT_EQ(EvenShares({4}, 9), (std::vector<uint64_t>{9}));
  EXPECT_EQ(EvenShares({0, 0}, 0), (std::vector<uint64_t>{0, 0}));
}

TEST(EvenSharesTest, GivesAwayEverythingEvenly) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<uint64_t> loads(1 + random() % 9);
    for (uint64_t& load : loads) load = random() % 1000;
    const uint64_t bytes = random() % 5000;
    const std::vector<uint64_t> shares = EvenShares(loads, bytes);
    EXPECT_EQ(Sum(shares), bytes);
    // Whoever got something is not above anyone else by more than rounding.
    uint64_t lowest = UINT64_MAX, highest_given = 0;
    for (size_t i = 0; i < loads.size(); ++i) {
      lowest = std::min(lowest, loads[i] + shares[i]);
      if (shares[i] > 0) highest_given = std::max(highest_given, loads[i] + shares[i]);
    }
    if (bytes > 0) {
      EXPECT_LE(highest_given, lowest + loads.size());
    }
  }
}

TEST(AssignWholeTest, LargestFirstToTheLeastLoaded) {
  HolderSets sets(2);
  const uint32_t both = sets.Intern({0, 1});
  const auto box = [](int64_t n) { return Box{{0}, {n}}; };
  const std::vector<HeldBox> boxes = {
      {0, box(3), 1, both}, {1, box(10), 1, both}, {2, box(6), 1, both}, {3, box(5), 1, 1}};
  const std::vector<AssignedBox> assigned = AssignWhole(boxes, sets, 2);
  EXPECT_EQ(LoadsOf(assigned, 2), (std::vector<uint64_t>{10 + 3, 5 + 6}));
}

TEST(AssignStretchesTest, OneTensorIsCutEvenly) {
  HolderSets sets(3);
  const uint32_t all = sets.Intern({0, 1, 2});
  const std::vector<HeldBox> boxes = {{0, Box::Whole({3000, 1000}), 4, all}};
  const std::vector<uint64_t> loads = LoadsOf(AssignStretches(boxes, sets, 3), 3);
  EXPECT_EQ(Sum(loads), 12000000u);
  EXPECT_EQ(loads, (std::vector<uint64_t>{4000000, 4000000, 4000000}));
}

TEST(AssignStretchesTest, OneLongRowIsCutToo) {
  HolderSets sets(2);
  const uint32_t all = sets.Intern({0, 1});
  const std::vector<HeldBox> boxes = {{0, Box::Whole({1, 1, 4000000}), 1, all}};
  EXPECT_EQ(LoadsOf(AssignStretches(boxes, sets, 2), 2), (std::vector<uint64_t>{2000000, 2000000}));
}

TEST(AssignStretchesTest, SharedBytesEvenOutWhatRanksHoldAlone) {
  HolderSets sets(2);
  const uint32_t both = sets.Intern({0, 1});
  const std::vector<HeldBox> boxes = {{0, Box{{0}, {1000000}}, 1, 0}, {1, Box{{0}, {3000000}}, 1, both}};
  EXPECT_EQ(LoadsOf(AssignStretches(boxes, sets, 2), 2), (std::vector<uint64_t>{2000000, 2000000}));
}

TEST(AssignStretchesTest, SmallTensorsAreNotCut) {
  HolderSets sets(4);
  const uint32_t all = sets.Intern({0, 1, 2, 3});
  const std::vector<HeldBox> boxes = {{0, Box{{0}, {1000}}, 1, all}, {1, Box{{0}, {0}}, 1, all}};
  EXPECT_EQ(AssignStretches(boxes, sets, 4).size(), 2u);
}

TEST(HolderSetsTest, EqualSetsHaveOneNumber) {
  HolderSets sets(3);
  EXPECT_EQ(sets.Intern({2}), 2u);
  EXPECT_EQ(sets.Intern({0, 2}), sets.Intern({0, 2}));
  EXPECT_NE(sets.Intern({0, 2}), sets.Intern({1, 2}));
}

}  // namespace
}  // namespace shardwright
