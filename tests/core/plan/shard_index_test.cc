#include "shardwright/core/plan/shard_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "shardwright/tests/testing/state_maker.h"

namespace shardwright {
namespace {

// A grid of `rows` x `columns` shards, listed in random order.
TensorEntry Grid(int64_t rows, int64_t columns, std::mt19937_64& random) {
  TensorEntry entry;
  entry.meta = testing::Meta("w", DType::kUInt8, {rows * 3, columns * 2});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      entry.shards.push_back(ShardMeta{Box{{r * 3, c * 2}, {3, 2}}, 0, 0, 6, {}, {}});
  }
  std::shuffle(entry.shards.begin(), entry.shards.end(), random);
  return entry;
}

TEST(ShardIndexTest, FindsExactlyTheOverlaps) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const TensorEntry entry =
        Grid(1 + static_cast<int64_t>(random() % 30), 1 + static_cast<int64_t>(random() % 30), random);
    const ShardIndex index(entry);
    Box box = Box::Whole(entry.meta.shape);
    for (int d = 0; d < 2; ++d) {
      box.offset[d] = static_cast<int64_t>(random() % static_cast<uint64_t>(entry.meta.shape[d]));
      box.size[d] = static_cast<int64_t>(random() % static_cast<uint64_t>(entry.meta.shape[d] - box.offset[d] + 1));
    }
    std::map<uint32_t, Box> found, want;
    index.ForEachOverlap(box,
                         [&](uint32_t shard, const Box& common) { EXPECT_TRUE(found.emplace(shard, common).second); });
    for (uint32_t i = 0; i < entry.shards.size(); ++i) {
      if (auto common = Intersect(entry.shards[i].box, box)) want.emplace(i, *common);
    }
    EXPECT_EQ(found, want);
  }
}

TEST(ShardIndexTest, ScalarsAndEmptyTensors) {
  TensorEntry scalar;
  scalar.meta = testing::Meta("s", DType::kFloat32, {});
  scalar.shards.push_back(ShardMeta{Box::Whole({}), 0, 0, 4, {0}, {}});
  int visits = 0;
  ShardIndex(scalar).ForEachOverlap(Box::Whole({}), [&](uint32_t, const Box&) { ++visits; });
  EXPECT_EQ(visits, 1);
}

}  // namespace
}  // namespace shardwright
