#include "shardwright/core/base/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

TEST(ParseBytes, BareNumbersAreBytes) {
  EXPECT_THAT(ParseBytes("0"), IsOkAndHolds(0u));
  EXPECT_THAT(ParseBytes("4096"), IsOkAndHolds(4096u));
  EXPECT_THAT(ParseBytes("18446744073709551615"), IsOkAndHolds(std::numeric_limits<uint64_t>::max()));
}

TEST(ParseBytes, UnitsAreDecimalAndBinary) {
  EXPECT_THAT(ParseBytes("7B"), IsOkAndHolds(7u));
  EXPECT_THAT(ParseBytes("3 kB"), IsOkAndHolds(3000u));
  EXPECT_THAT(ParseBytes("64 MB"), IsOkAndHolds(64'000'000u));
  EXPECT_THAT(ParseBytes("2GB"), IsOkAndHolds(2'000'000'000u));
  EXPECT_THAT(ParseBytes("1TB"), IsOkAndHolds(1'000'000'000'000u));
  EXPECT_THAT(ParseBytes("1KiB"), IsOkAndHolds(1024u));
  EXPECT_THAT(ParseBytes("5 MiB"), IsOkAndHolds(uint64_t{5} << 20));
  EXPECT_THAT(ParseBytes("2GiB"), IsOkAndHolds(uint64_t{2} << 30));
  EXPECT_THAT(ParseBytes("1TiB"), IsOkAndHolds(uint64_t{1} << 40));
}

TEST(ParseBytes, CaseAndSurroundingSpaceDoNotMatter) {
  EXPECT_THAT(ParseBytes(" 2gib\n"), IsOkAndHolds(uint64_t{2} << 30));
  EXPECT_THAT(ParseBytes("1  KB"), IsOkAndHolds(1000u));
}

TEST(ParseBytes, FractionsAreExactAndRoundedDown) {
  EXPECT_THAT(ParseBytes("1.5 GiB"), IsOkAndHolds((uint64_t{3} << 30) / 2));
  EXPECT_THAT(ParseBytes("0.1 KiB"), IsOkAndHolds(102u));
  EXPECT_THAT(ParseBytes("0.3 kB"), IsOkAndHolds(300u));
  EXPECT_THAT(ParseBytes("1.00000000000000000000000000 kB"), IsOkAndHolds(1000u));
  EXPECT_THAT(ParseBytes("16777215.999999999999 TiB"), IsOkAndHolds(std::numeric_limits<uint64_t>::max() - 1));
}

TEST(ParseBytes, RefusesWhatItDoesNotUnderstandWithAnExample) {
  for (const char* text : {"", " ", "x", "-1", "+1", "1.", ".5GiB", "1.5", "1.5 B", "1e9", "0x10", "1 000", "1 GiBs",
                           "1 PiB", "1,5 MB", "GiB", "1.5.5 MB", "nan", "inf"}) {
    EXPECT_THAT(ParseBytes(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1.5GiB"))) << text;
  }
}

TEST(ParseBytes, RefusesOverflow) {
  for (const char* text : {"18446744073709551616", "99999999999999999999999999", "16777216 TiB", "18446744073.8 GB"}) {
    EXPECT_THAT(ParseBytes(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too large"))) << text;
  }
}

TEST(FormatBytes, HasThreeSignificantDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(10 * 1024), "10.0 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{27} << 30), "27.0 GiB");
  EXPECT_EQ(FormatBytes(uint64_t{270} << 30), "270 GiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(FormatBytes, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{1023} << 10), "1023 KiB");
  EXPECT_EQ(FormatBytes(10 * 1024 - 1), "10.0 KiB");
  EXPECT_EQ(FormatBytes(100 * 1024 - 1), "100 KiB");
}

TEST(FormatBytes, ParsesBackWithinItsDigits) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t bytes = random() >> (24 + random() % 40);
    SW_ASSERT_OK_AND_ASSIGN(const uint64_t parsed, ParseBytes(FormatBytes(bytes)));
    EXPECT_NEAR(static_cast<double>(parsed), static_cast<double>(bytes), 0.006 * static_cast<double>(bytes));
  }
}

}  // namespace
}  // namespace shardwright
