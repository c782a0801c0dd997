#include "shardwright/callbacks/throughput.h"

#include <gtest/gtest.h>

namespace shardwright {
namespace {

TEST(ThroughputTest, BeforeTheFirstStepThereIsNone) {
  Throughput throughput(4);
  EXPECT_EQ(throughput.TokensPerSecond(), 0);
  EXPECT_EQ(throughput.TimeLeft(10), absl::ZeroDuration());
}

TEST(ThroughputTest, OneStepIsEnough) {
  Throughput throughput(4);
  throughput.Add(100, absl::Seconds(2), absl::Seconds(7));
  EXPECT_DOUBLE_EQ(throughput.TokensPerSecond(), 50);
  EXPECT_EQ(throughput.TimeLeft(10), absl::Seconds(20));
}

TEST(ThroughputTest, OldStepsLeaveTheWindow) {
  Throughput throughput(2);
  throughput.Add(1000, absl::Seconds(100), absl::Seconds(100));
  throughput.Add(100, absl::Seconds(1), absl::Seconds(101));
  throughput.Add(300, absl::Seconds(1), absl::Seconds(102));
  EXPECT_DOUBLE_EQ(throughput.TokensPerSecond(), 200);
  EXPECT_EQ(throughput.TimeLeft(3), absl::Seconds(3));
}

TEST(ThroughputTest, SavingCountsForTheTimeLeftAlone) {
  Throughput throughput(8);
  throughput.Add(10, absl::Seconds(1), absl::Seconds(1));
  throughput.Add(10, absl::Seconds(1), absl::Seconds(5));  // three seconds of saving before it
  EXPECT_DOUBLE_EQ(throughput.TokensPerSecond(), 10);
  EXPECT_EQ(throughput.TimeLeft(2), absl::Seconds(8));
}

TEST(FormatRateTest, ThreeDigitsAtMost) {
  EXPECT_EQ(FormatRate(0), "0");
  EXPECT_EQ(FormatRate(12.4), "12");
  EXPECT_EQ(FormatRate(950), "950");
  EXPECT_EQ(FormatRate(999.6), "1.0k");
  EXPECT_EQ(FormatRate(4123), "4.1k");
  EXPECT_EQ(FormatRate(9960), "10k");
  EXPECT_EQ(FormatRate(41000), "41k");
  EXPECT_EQ(FormatRate(999600), "1.0M");
  EXPECT_EQ(FormatRate(2.5e12), "2500G");
}

TEST(FormatTimeLeftTest, UnitsFollowTheSize) {
  EXPECT_EQ(FormatTimeLeft(absl::ZeroDuration()), "0 s");
  EXPECT_EQ(FormatTimeLeft(absl::Milliseconds(31400)), "31 s");
  EXPECT_EQ(FormatTimeLeft(absl::Seconds(59.6)), "1 min 00 s");
  EXPECT_EQ(FormatTimeLeft(absl::Seconds(245)), "4 min 05 s");
  EXPECT_EQ(FormatTimeLeft(absl::Seconds(7800)), "2 h 10 min");
}

}  // namespace
}  // namespace shardwright
