#include "shardwright/core/comm/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "shardwright/core/comm/half_float.h"

namespace shardwright {
namespace {

template <typename T>
std::vector<T> ReduceAll(DType dtype, ReduceOp op, const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> pointers;
  for (const std::vector<T>& input : inputs) pointers.push_back(input.data());
  std::vector<T> out(inputs[0].size());
  Reduce(dtype, op, pointers, static_cast<int64_t>(out.size()), out.data());
  return out;
}

TEST(HalfFloatTest, EveryFloat16SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Float16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Float16ToFloat(FloatToFloat16(value)))) << bits;
    } else {
      ASSERT_EQ(FloatToFloat16(value), bits);
    }
  }
}

TEST(HalfFloatTest, EveryBFloat16SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = BFloat16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(value)))) << bits;
    } else {
      ASSERT_EQ(FloatToBFloat16(value), bits);
    }
  }
}

// Between two neighbours the nearer is taken, in the middle the even one.
TEST(HalfFloatTest, RoundsToNearestEven) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = Float16ToFloat(bits);
    const float high = Float16ToFloat(bits + 1);
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(FloatToFloat16(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(FloatToFloat16(std::nextafter(middle, low)), bits) << bits;
    ASSERT_EQ(FloatToFloat16(std::nextafter(middle, high)), bits + 1) << bits;
  }
  for (uint16_t bits = 0; bits < 0x7f7f; ++bits) {
    const uint32_t middle = (static_cast<uint32_t>(bits) << 16) | 0x8000;
    ASSERT_EQ(FloatToBFloat16(std::bit_cast<float>(middle)), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(FloatToBFloat16(std::bit_cast<float>(middle - 1)), bits) << bits;
    ASSERT_EQ(FloatToBFloat16(std::bit_cast<float>(middle + 1)), bits + 1) << bits;
  }
}

TEST(HalfFloatTest, OverflowBecomesInfinity) {
  EXPECT_EQ(FloatToFloat16(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToFloat16(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToFloat16(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(ReduceTest, SumsFromLeftToRight) {
  // In another order the small number would survive.
  const std::vector<std::vector<float>> inputs = {{1e8f}, {1.0f}, {-1e8f}};
  EXPECT_EQ(ReduceAll(DType::kFloat32, ReduceOp::kSum, inputs), std::vector<float>{(1e8f + 1.0f) - 1e8f});
}

TEST(ReduceTest, HalfPrecisionIsAccumulatedInFloat) {
  // 256 + 1 is 256 in bfloat16: rounding at every step would lose every one.
  std::vector<std::vector<uint16_t>> inputs = {{FloatToBFloat16(256)}};
  for (int i = 0; i < 8; ++i) inputs.push_back({FloatToBFloat16(1)});
  EXPECT_EQ(BFloat16ToFloat(ReduceAll(DType::kBFloat16, ReduceOp::kSum, inputs)[0]), 264);
  inputs = {{FloatToFloat16(2048)}, {FloatToFloat16(1)}, {FloatToFloat16(1)}};
  EXPECT_EQ(Float16ToFloat(ReduceAll(DType::kFloat16, ReduceOp::kSum, inputs)[0]), 2050);
}

template <typename T>
void ExpectWrapsAround(DType dtype) {
  using Limits = std::numeric_limits<T>;
  const std::vector<std::vector<T>> inputs = {{Limits::max(), Limits::min(), 3}, {1, static_cast<T>(-1), 4}};
  EXPECT_EQ(ReduceAll(dtype, ReduceOp::kSum, inputs), (std::vector<T>{Limits::min(), Limits::max(), 7}));
  EXPECT_EQ(ReduceAll(dtype, ReduceOp::kMax, inputs)[0], Limits::max());
  EXPECT_EQ(ReduceAll(dtype, ReduceOp::kMin, inputs)[1], Limits::min());
}

TEST(ReduceTest, IntegersWrapAround) {
  ExpectWrapsAround<uint8_t>(DType::kUInt8);
  ExpectWrapsAround<int8_t>(DType::kInt8);
  ExpectWrapsAround<uint16_t>(DType::kUInt16);
  ExpectWrapsAround<int16_t>(DType::kInt16);
  ExpectWrapsAround<uint32_t>(DType::kUInt32);
  ExpectWrapsAround<int32_t>(DType::kInt32);
  ExpectWrapsAround<uint64_t>(DType::kUInt64);
  ExpectWrapsAround<int64_t>(DType::kInt64);
}

TEST(ReduceTest, MinAndMaxOfHalvesAndDoubles) {
  const std::vector<std::vector<uint16_t>> halves = {{FloatToFloat16(-2)}, {FloatToFloat16(1)}};
  EXPECT_EQ(Float16ToFloat(ReduceAll(DType::kFloat16, ReduceOp::kMin, halves)[0]), -2);
  EXPECT_EQ(Float16ToFloat(ReduceAll(DType::kFloat16, ReduceOp::kMax, halves)[0]), 1);
  const std::vector<std::vector<double>> doubles = {{-2.5}, {1e300}};
  EXPECT_EQ(ReduceAll(DType::kFloat64, ReduceOp::kMax, doubles)[0], 1e300);
  EXPECT_EQ(ReduceAll(DType::kFloat64, ReduceOp::kMin, doubles)[0], -2.5);
}

TEST(ReduceTest, KnowsWhatItCannotReduce) {
  EXPECT_FALSE(CanReduce(DType::kBool, ReduceOp::kSum));
  EXPECT_TRUE(CanReduce(DType::kBool, ReduceOp::kMin));
  EXPECT_TRUE(CanReduce(DType::kBool, ReduceOp::kMax));
  for (DType dtype : {DType::kInvalid, DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kFloat8E8M0, DType::kComplex64}) {
    EXPECT_FALSE(CanReduce(dtype, ReduceOp::kSum)) << static_cast<int>(dtype);
    EXPECT_FALSE(CanReduce(dtype, ReduceOp::kMax)) << static_cast<int>(dtype);
  }
}

}  // namespace
}  // namespace shardwright
