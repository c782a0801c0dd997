#include "shardwright/core/plan/read_groups.h"

#include <gtest/gtest.h>

#include "shardwright/tests/testing/state_maker.h"

namespace shardwright {
namespace {

ShardMeta Shard(uint64_t offset, uint64_t length, bool checksums = true) {
  ShardMeta shard{Box{{0}, {static_cast<int64_t>(length)}}, 0, offset, length, {}, {}};
  if (checksums) shard.chunk_crc32c.resize((length + kChecksumChunkBytes - 1) / kChecksumChunkBytes);
  return shard;
}

TEST(WidenToChunksTest, WholeChunksOfTheShard) {
  const ShardMeta shard = Shard(1000, 200000);
  EXPECT_EQ(WidenToChunks(shard, 1000, 1), (FileRange{1000, 1000 + 65536}));
  EXPECT_EQ(WidenToChunks(shard, 1000 + 65536, 65536), (FileRange{1000 + 65536, 1000 + 131072}));
  EXPECT_EQ(WidenToChunks(shard, 1000 + 65535, 2), (FileRange{1000, 1000 + 131072}));
  EXPECT_EQ(WidenToChunks(shard, 1000 + 199999, 1), (FileRange{1000 + 196608, 201000}));
  EXPECT_EQ(WidenToChunks(Shard(1000, 200000, false), 1500, 7), (FileRange{1500, 1507}));
}

TEST(GroupReadsTest, SmallNeighboursGoTogether) {
  std::vector<ShardMeta> shards;
  std::vector<Read> reads;
  for (uint32_t i = 0; i < 1000; ++i) {
    shards.push_back(Shard(i * 16, 16));
    reads.push_back(Read{i, 0, shards[i].box, 0, i * 16, 16, true});
  }
  const auto shard_of = [&](const Read& read) -> const ShardMeta& { return shards[read.tensor]; };
  const std::vector<ReadGroup> one = GroupReads(reads, shard_of, 1 << 20);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0], (ReadGroup{0, {0, 16000}, 0, 1000}));
  EXPECT_EQ(GroupReads(reads, shard_of, 1600).size(), 10u);
  reads[500].file = 1;
  EXPECT_EQ(GroupReads(reads, shard_of, 1 << 20).size(), 3u);
}

TEST(GroupReadsTest, LargeReadsAndGapsStandAlone) {
  const std::vector<ShardMeta> shards = {Shard(0, 100), Shard(100, kLargeReadBytes), Shard(100 + kLargeReadBytes, 100),
                                         Shard(900000, 100)};
  std::vector<Read> reads;
  for (uint32_t i = 0; i < shards.size(); ++i) {
    reads.push_back(Read{i, 0, shards[i].box, 0, shards[i].offset_bytes, shards[i].length_bytes, true});
  }
  const std::vector<ReadGroup> groups = GroupReads(
      reads, [&](const Read& read) -> const ShardMeta& { return shards[read.tensor]; }, 8 << 20);
  EXPECT_EQ(groups.size(), 4u);
}

TEST(AppendReadsTest, RowsAreContiguousColumnsAreNot) {
  ShardMeta shard{Box{{10, 0}, {4, 8}}, 2, 1000, 4 * 8 * 4, {0}, {}};
  std::vector<Read> reads;
  AppendReads(5, 3, shard, 4, Box{{11, 0}, {2, 8}}, 1 << 20, &reads);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0], (Read{5, 3, Box{{11, 0}, {2, 8}}, 2, 1032, 64, true}));
  reads.clear();
  AppendReads(5, 3, shard, 4, Box{{10, 2}, {4, 3}}, 1 << 20, &reads);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0], (Read{5, 3, Box{{10, 2}, {4, 3}}, 2, 1008, (3 * 8 + 3) * 4, false}));
}

TEST(AppendReadsTest, ThinColumnsOfWideRowsSkipWhatLiesBetween) {
  ShardMeta shard{Box::Whole({8, 100000}), 0, 0, 8 * 100000 * 4, std::vector<uint32_t>(49), {}};
  std::vector<Read> reads;
  AppendReads(0, 0, shard, 4, Box{{0, 0}, {8, 10}}, 1 << 20, &reads);
  EXPECT_EQ(reads.size(), 8u);
}

}  // namespace
}  // namespace shardwright
