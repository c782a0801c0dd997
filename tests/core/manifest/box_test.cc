#include "shardwright/core/manifest/box.h"

#include <limits>

#include "tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(BoxTest, ScalarsHaveOneElementAndNoDimension) {
  const Box scalar = Box::Whole({});
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_EQ(scalar.ToString(), "[]");
  EXPECT_TRUE(scalar.IsWhole({}));
  EXPECT_EQ(Intersect(scalar, scalar), scalar);
  EXPECT_TRUE(Subtract(scalar, scalar).empty());
  EXPECT_TRUE(IsContiguous(scalar, scalar));
  EXPECT_THAT(CheckTiling(scalar, {scalar}), IsOk());
  EXPECT_THAT(CheckTiling(scalar, {scalar, scalar}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("overlap")));
  EXPECT_THAT(CheckTiling(scalar, {}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no box covers []")));
}

TEST(BoxTest, Printing) {
  EXPECT_EQ(Box::Rows({6, 4}, 3, 6).ToString(), "[3:6, 0:4]");
  EXPECT_EQ(ShapeToString({6, 4}), "[6, 4]");
  EXPECT_EQ(ShapeToString({}), "[]");
}

TEST(BoxTest, CheckedElementsRefusesOverflowEvenBesideAZero) {
  EXPECT_EQ(CheckedElements({}), 1);
  EXPECT_EQ(CheckedElements({3, 0, 2}), 0);
  EXPECT_EQ(CheckedElements({kMax}), kMax);
  EXPECT_EQ(CheckedElements({kMax, 2}), std::nullopt);
  EXPECT_EQ(CheckedElements({kMax, 2, 0}), std::nullopt);
  EXPECT_EQ(CheckedElements({0, kMax, 2}), std::nullopt);
  EXPECT_EQ(CheckedElements({2, -1}), std::nullopt);
}

TEST(BoxTest, ValidateBoxChecksRankSignAndBoundsWithoutOverflow) {
  EXPECT_THAT(ValidateBox({{0, 2}, {3, 2}}, {3, 4}), IsOk());
  EXPECT_THAT(ValidateBox({{3}, {0}}, {3}), IsOk());
  EXPECT_THAT(ValidateBox({{4}, {0}}, {3}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dimension 0")));
  EXPECT_THAT(ValidateBox({{0, 3}, {3, 2}}, {3, 4}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dimension 1")));
  EXPECT_THAT(ValidateBox({{-1}, {1}}, {3}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ValidateBox({{0}, {-1}}, {3}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ValidateBox({{kMax}, {kMax}}, {kMax}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ValidateBox({{0}, {1, 1}}, {3}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 offsets and 2 sizes")));
}

TEST(BoxTest, TilingNamesTheOverlappingPair) {
  EXPECT_THAT(CheckTiling(Box::Whole({6, 4}), {Box::Rows({6, 4}, 0, 3), Box::Rows({6, 4}, 2, 6)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("boxes 0 and 1 overlap in [2:3, 0:4]")));
}

TEST(BoxTest, TilingNamesTheHole) {
  EXPECT_THAT(CheckTiling(Box::Whole({6, 4}), {Box::Rows({6, 4}, 0, 2), Box::Rows({6, 4}, 3, 6)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no box covers [2:3, 0:4]")));
  EXPECT_THAT(CheckTiling(Box::Whole({6}), {Box{{1}, {5}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no box covers [0:1]")));
  EXPECT_THAT(CheckTiling(Box::Whole({6}), {Box{{0}, {5}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no box covers [5:6]")));
}

TEST(BoxTest, TilingNamesTheBoxOutside) {
  EXPECT_THAT(CheckTiling(Box::Whole({6}), {Box{{0}, {3}}, Box{{3}, {4}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("box 1, [3:7], is not inside [0:6]")));
}

// No plane separates the arms of a pinwheel.
TEST(BoxTest, TilingAcceptsAPinwheel) {
  const std::vector<Box> pinwheel = {
      {{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}};
  EXPECT_THAT(CheckTiling(Box::Whole({3, 3}), pinwheel), IsOk());
  std::vector<Box> without_middle(pinwheel.begin(), pinwheel.end() - 1);
  EXPECT_THAT(CheckTiling(Box::Whole({3, 3}), without_middle),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no box covers [1:2, 1:2]")));
}

TEST(BoxTest, TilingOfManySlabsAndGridCells) {
  constexpr int64_t kSlabs = 200000;
  std::vector<Box> slabs;
  for (int64_t i = 0; i < kSlabs; ++i) slabs.push_back(Box::Rows({kSlabs, 3}, i, i + 1));
  EXPECT_THAT(CheckTiling(Box::Whole({kSlabs, 3}), slabs), IsOk());
  slabs[kSlabs / 2].offset[0] -= 1;
  EXPECT_THAT(CheckTiling(Box::Whole({kSlabs, 3}), slabs),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("overlap")));

  std::vector<Box> cells;
  for (int64_t i = 0; i < 300; ++i) {
    for (int64_t j = 0; j < 300; ++j) cells.push_back({{i * 2, j * 3}, {2, 3}});
  }
  EXPECT_THAT(CheckTiling(Box::Whole({600, 900}), cells), IsOk());
}

// Boxes as a hostile file would lay them: each cut peels one box off, in turns of the dimensions.
TEST(BoxTest, TilingGivesUpOnIrregularCutsInBoundedWork) {
  constexpr int64_t kBoxes = 200000;
  Box rest = Box::Whole({kBoxes, kBoxes});
  std::vector<Box> spiral;
  for (int64_t i = 0; i < kBoxes - 1; ++i) {
    const int d = i % 2;
    spiral.push_back(rest);
    spiral.back().size[d] = 1;
    ++rest.offset[d];
    --rest.size[d];
  }
  spiral.push_back(rest);
  EXPECT_THAT(CheckTiling(Box::Whole({kBoxes, kBoxes}), spiral),
              AnyOf(IsOk(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too irregularly"))));
}

TEST(BoxTest, RowsOfAMatrixAreOneRun) {
  const Box matrix = Box::Whole({6, 4, 2});
  EXPECT_TRUE(IsContiguous(matrix, Box::Rows({6, 4, 2}, 2, 5)));
  EXPECT_FALSE(IsContiguous(matrix, Box{{0, 1, 0}, {6, 2, 2}}));
  EXPECT_TRUE(IsContiguous(matrix, Box{{3, 1, 0}, {1, 2, 2}}));
  EXPECT_TRUE(IsContiguous(matrix, Box{{3, 1, 0}, {0, 1, 1}}));
  EXPECT_EQ(FirstElement(matrix, Box::Rows({6, 4, 2}, 2, 5)), 16);
}

}  // namespace
}  // namespace shardwright
