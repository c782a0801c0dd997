#include "shardwright/core/base/checked_math.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>

namespace shardwright {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
constexpr int64_t kSignedMax = std::numeric_limits<int64_t>::max();

TEST(CheckedMath, AddsUpToTheLimit) {
  EXPECT_EQ(CheckedAdd<uint64_t>(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd<uint64_t>(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd<int64_t>(kSignedMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd<int64_t>(-kSignedMax - 1, -1), std::nullopt);
}

TEST(CheckedMath, MultipliesUpToTheLimit) {
  EXPECT_EQ(CheckedMultiply<uint64_t>(kMax / 3, 3), kMax);
  EXPECT_EQ(CheckedMultiply<uint64_t>(kMax / 3 + 1, 3), std::nullopt);
  EXPECT_EQ(CheckedMultiply<uint64_t>(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedMultiply<uint64_t>(kMax, 0), 0u);
  EXPECT_EQ(CheckedMultiply<int64_t>(kSignedMax, -1), -kSignedMax);
  EXPECT_EQ(CheckedMultiply<int64_t>(kSignedMax, 2), std::nullopt);
}

}  // namespace
}  // namespace shardwright
