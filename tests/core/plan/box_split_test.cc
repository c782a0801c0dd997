#include "shardwright/core/plan/box_split.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace shardwright {
namespace {

std::vector<Box> Pieces(const Box& container, const Box& part, const SplitLimits& limits) {
  std::vector<Box> pieces;
  ForEachPiece(container, part, limits, [&](const Box& piece) { pieces.push_back(piece); });
  return pieces;
}

Shape RandomShape(std::mt19937_64& random) {
  Shape shape;
  for (uint64_t rank = random() % 5; rank > 0; --rank) shape.push_back(1 + static_cast<int64_t>(random() % 9));
  return shape;
}

Box RandomPart(const Shape& shape, std::mt19937_64& random) {
  Box box = Box::Whole(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    box.offset[d] = static_cast<int64_t>(random() % static_cast<uint64_t>(shape[d]));
    box.size[d] = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(shape[d] - box.offset[d]));
  }
  return box;
}

TEST(BoxSplitTest, PiecesTileThePartInOrderWithinTheSpan) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Shape shape = RandomShape(random);
    const Box container = Box::Whole(shape);
    const Box part = RandomPart(shape, random);
    SplitLimits limits;
    limits.span_elements = 1 + static_cast<int64_t>(random() % 40);
    if (random() % 2) limits.gap_elements = 1 + static_cast<int64_t>(random() % 20);
    if (random() % 2) limits.align_elements = 4;
    const std::vector<Box> pieces = Pieces(container, part, limits);
    EXPECT_TRUE(CheckTiling(part, pieces).ok()) << CheckTiling(part, pieces);
    int64_t next = 0;
    for (const Box& piece : pieces) {
      EXPECT_LE(SpanElements(container, piece), limits.span_elements);
      EXPECT_GE(FirstElement(container, piece), next);
      next = FirstElement(container, piece) + 1;
    }
  }
}

TEST(BoxSplitTest, LongGapsAreSkipped) {
  const Box container = Box::Whole({4, 1000});
  const Box columns{{0, 10}, {4, 5}};
  SplitLimits limits;
  EXPECT_EQ(Pieces(container, columns, limits).size(), 1u);
  limits.gap_elements = 900;
  EXPECT_EQ(Pieces(container, columns, limits).size(), 4u);
}

TEST(BoxSplitTest, AGapInAnInnerDimensionIsFoundToo) {
  SplitLimits limits;
  limits.gap_elements = 50;
  const std::vector<Box> pieces = Pieces(Box::Whole({3, 2, 100}), Box{{0, 0, 0}, {3, 2, 10}}, limits);
  EXPECT_EQ(pieces.size(), 6u);
}

TEST(BoxSplitTest, CutsFallOnAlignedRows) {
  SplitLimits limits;
  limits.span_elements = 100;
  limits.align_elements = 64;
  // Rows of 16 elements: six fit a window, four end aligned.
  const std::vector<Box> pieces = Pieces(Box::Whole({10, 16}), Box::Whole({10, 16}), limits);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].size[0], 4);
  EXPECT_EQ(pieces[1].size[0], 6);
}

TEST(BoxSplitTest, EmptyPartsHaveNoPieces) {
  EXPECT_TRUE(Pieces(Box::Whole({3, 0}), Box::Whole({3, 0}), {}).empty());
  EXPECT_EQ(Pieces(Box::Whole({}), Box::Whole({}), {}).size(), 1u);
}

TEST(BoxSplitTest, CutRunKeepsOrderAndContiguity) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Shape shape = RandomShape(random);
    const Box run = Box::Whole(shape);
    const int64_t at = static_cast<int64_t>(random() % static_cast<uint64_t>(run.elements() + 1));
    const int64_t granularity = static_cast<int64_t>(random() % 8);
    std::vector<Box> head, tail;
    CutRun(run, at, granularity, &head, &tail);
    int64_t before = 0;
    for (const Box& box : head) before += box.elements();
    EXPECT_LE(std::abs(before - at), granularity);
    std::vector<Box> all = head;
    all.insert(all.end(), tail.begin(), tail.end());
    EXPECT_TRUE(CheckTiling(run, all).ok());
    int64_t next = 0;
    for (const Box& box : all) {
      EXPECT_TRUE(IsContiguous(run, box));
      EXPECT_EQ(FirstElement(run, box), next);
      next += box.elements();
    }
  }
}

}  // namespace
}  // namespace shardwright
