#include "shardwright/core/models/option_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

ModelOptions Defaults() {
  return {{"n_layer", "4"}, {"rate", "1e-3"}, {"tied", "true"}, {"kind", "adamw"}};
}

TEST(OptionReaderTest, ReadsDefaultsAndWhatReplacesThem) {
  OptionReader options("toy", {{"n_layer", "7"}, {"tied", "no"}}, Defaults());
  EXPECT_EQ(options.Int("n_layer", 1, 10), 7);
  EXPECT_EQ(options.Double("rate", 0, 1), 1e-3);
  EXPECT_FALSE(options.Bool("tied"));
  EXPECT_EQ(options.Text("kind"), "adamw");
  EXPECT_THAT(options.status(), IsOk());
}

TEST(OptionReaderTest, BoundsAreInclusive) {
  OptionReader options("toy", {{"n_layer", "10"}, {"rate", "0"}}, Defaults());
  EXPECT_EQ(options.Int("n_layer", 10, 10), 10);
  EXPECT_EQ(options.Double("rate", 0, 0), 0);
  EXPECT_THAT(options.status(), IsOk());
}

TEST(OptionReaderTest, UnknownNamesAreAnsweredWithTheNearest) {
  EXPECT_THAT(
      OptionReader("toy", {{"n_layers", "4"}}, Defaults()).status(),
      StatusIs(kInvalidArgument, AllOf(HasSubstr("model toy"), HasSubstr("n_layers"), HasSubstr("\"n_layer\""))));
  EXPECT_THAT(OptionReader("toy", {{"zzzzzz", "4"}}, Defaults()).status(),
              StatusIs(kInvalidArgument, HasSubstr("known: kind, n_layer, rate, tied")));
}

TEST(OptionReaderTest, EveryProblemIsListed) {
  OptionReader options("toy", {{"n_layer", "four"}, {"rate", "nan"}, {"tied", "maybe"}}, Defaults());
  options.Int("n_layer", 1, 10);
  options.Double("rate", 0, 1);
  options.Bool("tied");
  options.AddProblem("and one more");
  EXPECT_THAT(options.status(),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("n_layer is \"four\", expected a whole number from 1 to 10"),
                             HasSubstr("rate is \"nan\""), HasSubstr("tied is \"maybe\", expected true or false"),
                             HasSubstr("and one more"))));
}

TEST(OptionReaderTest, NumbersOutOfBoundsAreRefused) {
  for (const char* text : {"0", "11", "-1", "99999999999999999999", "1.5", "", "4x"}) {
    OptionReader options("toy", {{"n_layer", text}}, Defaults());
    EXPECT_EQ(options.Int("n_layer", 1, 10), 1);
    EXPECT_THAT(options.status(), StatusIs(kInvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace shardwright
