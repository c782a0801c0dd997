#include "shardwright/core/manifest/dtype.h"

#include <set>
#include <string>

#include "shardwright/core/manifest/load_order.h"
#include "shardwright/core/manifest/tensor_meta.h"
#include "tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

TEST(DTypeTest, EveryNameParsesToItsNumber) {
  std::set<std::string> names;
  for (int number = 1; IsKnownDType(number); ++number) {
    const DType dtype = static_cast<DType>(number);
    EXPECT_TRUE(names.insert(std::string(DTypeName(dtype))).second) << number;
    EXPECT_THAT(ParseDType(DTypeName(dtype)), IsOkAndHolds(dtype));
    EXPECT_GT(ItemSize(dtype), 0);
  }
  EXPECT_EQ(names.size(), 19u);
}

// Persisted numbers: a change of any of these breaks every checkpoint that was ever written.
TEST(DTypeTest, NumbersNamesAndSizesAreFrozen) {
  struct Row {
    int number;
    const char* name;
    int64_t size;
  };
  const Row rows[] = {{1, "BOOL", 1}, {2, "U8", 1},           {3, "I8", 1},          {4, "U16", 2},
                      {5, "I16", 2},  {6, "U32", 4},          {7, "I32", 4},         {8, "U64", 8},
                      {9, "I64", 8},  {10, "F16", 2},         {11, "BF16", 2},       {12, "F32", 4},
                      {13, "F64", 8}, {14, "F8_E4M3", 1},     {15, "F8_E5M2", 1},    {16, "F8_E8M0", 1},
                      {17, "C64", 8}, {18, "F8_E4M3FNUZ", 1}, {19, "F8_E5M2FNUZ", 1}};
  for (const Row& row : rows) {
    const DType dtype = static_cast<DType>(row.number);
    EXPECT_EQ(DTypeName(dtype), row.name);
    EXPECT_EQ(ItemSize(dtype), row.size) << row.name;
  }
}

TEST(DTypeTest, ForeignOnesAreNumberedApart) {
  struct Row {
    int number;
    const char* name;
    int64_t size;
  };
  for (const Row& row : {Row{32, "C128", 16}, Row{33, "C32", 4}, Row{34, "F4_X2", 1}}) {
    const DType dtype = static_cast<DType>(row.number);
    EXPECT_TRUE(IsKnownDType(row.number));
    EXPECT_FALSE(IsNativeDType(dtype));
    EXPECT_EQ(DTypeName(dtype), row.name);
    EXPECT_EQ(ItemSize(dtype), row.size) << row.name;
    EXPECT_THAT(ParseDType(row.name), IsOkAndHolds(dtype));
  }
  EXPECT_TRUE(IsNativeDType(DType::kFloat8E5M2FNUZ));
  EXPECT_FALSE(IsNativeDType(DType::kInvalid));
}

TEST(DTypeTest, UnknownOnesAreRefused) {
  EXPECT_FALSE(IsKnownDType(31));
  EXPECT_FALSE(IsKnownDType(35));
  EXPECT_FALSE(IsKnownDType(0));
  EXPECT_FALSE(IsKnownDType(-1));
  EXPECT_FALSE(IsKnownDType(20));
  EXPECT_EQ(ItemSize(static_cast<DType>(200)), 0);
  EXPECT_EQ(ItemSize(DType::kInvalid), 0);
  EXPECT_THAT(ParseDType("f32"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"f32\"")));
  EXPECT_THAT(ParseDType("INVALID"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(LoadOrderTest, NamesRoundTrip) {
  for (LoadMode mode : {LoadMode::kAuto, LoadMode::kConcurrent, LoadMode::kSerialized, LoadMode::kBroadcast}) {
    EXPECT_THAT(ParseLoadMode(LoadModeName(mode)), IsOkAndHolds(mode));
  }
  EXPECT_THAT(ParseLoadMode("serial"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("known: auto, concurrent, serialized, broadcast")));
}

TEST(TensorMetaTest, BytesAndOptimizerName) {
  TensorMeta meta;
  meta.dtype = DType::kBFloat16;
  meta.shape = {6, 4};
  EXPECT_EQ(meta.bytes(), 48);
  EXPECT_EQ(meta.BytesOf(Box::Rows(meta.shape, 2, 5)), 24);
  EXPECT_EQ(OptimizerTensorName({1, "block.0.w", "exp_avg"}), "optimizer.1.state.block.0.w.exp_avg");
}

}  // namespace
}  // namespace shardwright
