#include "shardwright/core/tensor/cast.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

template <typename To, typename From>
std::vector<To> Cast(DType from, const std::vector<From>& values, DType to) {
  std::vector<To> out(values.size());
  EXPECT_THAT(CastElements(from, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(From)}, to,
                           {reinterpret_cast<char*>(out.data()), out.size() * sizeof(To)}),
              IsOk());
  return out;
}

constexpr DType kF16 = DType::kFloat16, kBF16 = DType::kBFloat16, kF32 = DType::kFloat32, kF64 = DType::kFloat64;

// The value of a small float by definition, for comparison.
double ValueOf(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

class SmallFloatTest : public ::testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  int exponent_bits() const { return type() == kF16 ? 5 : 8; }
  int mantissa_bits() const { return 15 - exponent_bits(); }
  double ValueOf(uint16_t bits) const { return shardwright::ValueOf(bits, exponent_bits(), mantissa_bits()); }
};

TEST_P(SmallFloatTest, EveryValueWidensExactlyAndComesBack) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const auto doubles = Cast<double>(type(), all, kF64);
  const auto floats = Cast<float>(type(), all, kF32);
  const auto from_doubles = Cast<uint16_t>(kF64, doubles, type());
  const auto from_floats = Cast<uint16_t>(kF32, floats, type());
  for (size_t i = 0; i < all.size(); ++i) {
    const double want = ValueOf(all[i]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(doubles[i]) && std::isnan(floats[i]));
      EXPECT_EQ(std::signbit(doubles[i]), (all[i] & 0x8000) != 0);
      const uint16_t quiet = static_cast<uint16_t>(all[i] | 1u << (mantissa_bits() - 1));
      EXPECT_EQ(from_doubles[i], quiet) << i;
      EXPECT_EQ(from_floats[i], quiet) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint64_t>(doubles[i]), std::bit_cast<uint64_t>(want)) << i;
      EXPECT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(static_cast<float>(want))) << i;
      EXPECT_EQ(from_doubles[i], all[i]) << i;
      EXPECT_EQ(from_floats[i], all[i]) << i;
    }
  }
}

// Between two neighbours: the nearer one, and the even one half-way, decided exactly in double precision.
TEST_P(SmallFloatTest, RoundsToNearestEven) {
  std::vector<double> values;
  std::vector<uint16_t> want;
  const int largest = ((1 << exponent_bits()) - 1) << mantissa_bits();  // infinity
  for (int bits = 0; bits + 1 < largest; ++bits) {
    const double low = ValueOf(static_cast<uint16_t>(bits)), high = ValueOf(static_cast<uint16_t>(bits + 1));
    const double half = low + (high - low) / 2;
    for (const double sign : {1.0, -1.0}) {
      const auto add = [&](double value, int result) {
        values.push_back(sign * value);
        want.push_back(static_cast<uint16_t>(result | (sign < 0 ? 0x8000 : 0)));
      };
      add(std::nextafter(half, 0.0), bits);
      add(half, bits % 2 == 0 ? bits : bits + 1);
      add(std::nextafter(half, high), bits + 1);
    }
  }
  EXPECT_EQ(Cast<uint16_t>(kF64, values, type()), want);
}

TEST_P(SmallFloatTest, TooLargeIsInfinityTooSmallIsZero) {
  const auto infinity = static_cast<uint16_t>(((1 << exponent_bits()) - 1) << mantissa_bits());
  const double largest = ValueOf(static_cast<uint16_t>(infinity - 1));
  const double step = largest - ValueOf(static_cast<uint16_t>(infinity - 2));
  EXPECT_EQ(Cast<uint16_t>(kF64,
                           std::vector<double>{largest + step / 2, std::nextafter(largest + step / 2, 0.0), -INFINITY,
                                               1e300, -1e-320, 5e-324},
                           type()),
            (std::vector<uint16_t>{infinity, static_cast<uint16_t>(infinity - 1),
                                   static_cast<uint16_t>(infinity | 0x8000), infinity, 0x8000, 0}));
}

INSTANTIATE_TEST_SUITE_P(All, SmallFloatTest, ::testing::Values(kF16, kBF16));

TEST(CastTest, FloatToBFloat16AgreesWithTheWayThroughDouble) {
  std::mt19937_64 random(5);
  std::vector<uint32_t> bits(200000);
  for (uint32_t& b : bits) b = static_cast<uint32_t>(random());
  std::vector<float> floats(bits.size());
  std::memcpy(floats.data(), bits.data(), bits.size() * 4);
  const auto doubles = Cast<double>(kF32, floats, kF64);
  EXPECT_EQ(Cast<uint16_t>(kF32, floats, kBF16), Cast<uint16_t>(kF64, doubles, kBF16));
}

TEST(CastTest, FloatAndDoubleAgreeWithTheProcessor) {
  std::mt19937_64 random(6);
  std::vector<double> doubles = {0.0, -0.0, 1e-45, 7e-46, 1e-310, 3.4028235677973366e38, 1e39, INFINITY, -INFINITY};
  for (int i = 0; i < 200000; ++i) {
    const uint64_t exponent = 1023 - 160 + random() % 300;
    doubles.push_back(std::bit_cast<double>((random() & 0x800fffffffffffffu) | exponent << 52));
  }
  const auto floats = Cast<float>(kF64, doubles, kF32);
  for (size_t i = 0; i < doubles.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(static_cast<float>(doubles[i])))
        << doubles[i];
  }
  const auto back = Cast<double>(kF32, floats, kF64);
  for (size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(back[i], static_cast<double>(floats[i]));
}

TEST(CastTest, EqualTypesKeepEveryBit) {
  const std::vector<uint16_t> bits = {0x7fc1, 0xff81, 0x8000, 0x7f81};
  EXPECT_EQ(Cast<uint16_t>(kBF16, bits, kBF16), bits);
  const std::vector<int64_t> numbers = {1, -1, INT64_MIN};
  EXPECT_EQ(Cast<int64_t>(DType::kInt64, numbers, DType::kInt64), numbers);
}

TEST(CastTest, OthersAreRefused) {
  char bytes[8] = {};
  const absl::Span<char> out(bytes, 4);
  EXPECT_THAT(CastElements(DType::kInt32, out, kF32, out),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("I32")));
  EXPECT_THAT(CastElements(kF32, out, DType::kFloat8E4M3, out), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CastElements(kF32, out, kF64, out), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 bytes")));
  EXPECT_THAT(CastElements(kF32, {bytes, 3}, kF32, {bytes, 3}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace shardwright
