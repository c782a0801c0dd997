#include "shardwright/core/plan/shard_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "shardwright/core/plan/placement.h"
#include "shardwright/tests/testing/state_maker.h"

namespace shardwright {
namespace {

using ::shardwright::testing::Meta;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ShardLayoutTest, RankAfterRankTensorAfterTensor) {
  const std::vector<TensorMeta> tensors = {Meta("a", DType::kFloat32, {3, 2}), Meta("b", DType::kFloat32, {2, 1})};
  const ShardLayout layout(tensors, 2);
  EXPECT_THAT(layout.counts(), ElementsAre(3, 5));
  EXPECT_EQ(layout.elements(), 8);
  const auto first = layout.PiecesOf(0), second = layout.PiecesOf(1);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].elements, 2);
  EXPECT_EQ(first[1].flat_begin, 2);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].tensor_begin, 2);
  EXPECT_EQ(second[0].flat_begin, 3);
  EXPECT_EQ(second[1].tensor_begin, 1);
}

TEST(ShardLayoutTest, ScalarsStandInEveryPartAndEmptyTensorsInNone) {
  const std::vector<TensorMeta> tensors = {Meta("scalar", DType::kFloat32, {}), Meta("empty", DType::kFloat32, {0, 3})};
  const ShardLayout layout(tensors, 3);
  EXPECT_THAT(layout.counts(), ElementsAre(1, 1, 1));
  for (int32_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(layout.PiecesOf(rank).size(), 1u);
    EXPECT_EQ(layout.PiecesOf(rank)[0].flat_begin, rank);
    EXPECT_EQ(layout.PiecesOf(rank)[0].tensor_begin, 0);
  }
}

TEST(ShardLayoutTest, NothingAtAll) {
  const ShardLayout layout({}, 2);
  EXPECT_THAT(layout.counts(), ElementsAre(0, 0));
  EXPECT_THAT(layout.pieces(), IsEmpty());
}

// Every element of every tensor is in exactly one place of the buffer, in the part of the rank that holds it.
TEST(ShardLayoutTest, PiecesTileTensorsAndBuffer) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    const int32_t world = 1 + static_cast<int32_t>(random() % 9);
    std::vector<TensorMeta> tensors(random() % 5);
    for (TensorMeta& tensor : tensors) {
      tensor =
          Meta("t", DType::kFloat32, Shape{static_cast<int64_t>(random() % 7), static_cast<int64_t>(random() % 4)});
    }
    const ShardLayout layout(tensors, world);
    std::vector<std::vector<int>> seen(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) seen[i].resize(tensors[i].elements());
    int64_t flat = 0;
    for (int32_t rank = 0; rank < world; ++rank) {
      const int64_t begin = flat;
      for (const ShardPiece& piece : layout.PiecesOf(rank)) {
        EXPECT_EQ(piece.flat_begin, flat);
        EXPECT_EQ(piece.elements, RowShardBox(tensors[piece.tensor], rank, world).elements());
        for (int64_t i = 0; i < piece.elements; ++i) ++seen[piece.tensor].at(piece.tensor_begin + i);
        flat += piece.elements;
      }
      EXPECT_EQ(layout.counts()[rank], flat - begin);
    }
    EXPECT_EQ(layout.elements(), flat);
    for (const std::vector<int>& elements : seen) EXPECT_THAT(elements, ::testing::Each(1));
  }
}

}  // namespace
}  // namespace shardwright
