#include "shardwright/cli/flag_parser.h"

#include <gflags/gflags.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "shardwright/tests/testing/status_matchers.h"

DEFINE_int32(nproc_per_node, 1, "test flag");
DEFINE_bool(color, true, "test flag");
DEFINE_bool(normal, false, "test flag whose name begins with no");
DEFINE_string(text, "", "test flag");
DEFINE_double(rate, 0.5, "test flag");
DEFINE_uint64(count, 0, "test flag");
DEFINE_string(foreign, "", "a flag of another verb");

namespace shardwright::cli {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kAllowed = {"nproc_per_node", "color", "normal", "text", "rate", "count"};

class FlagParserTest : public ::testing::Test {
 private:
  gflags::FlagSaver saver_;  // restores every flag after each test
};

TEST_F(FlagParserTest, TakesEveryWayToWriteAFlag) {
  SW_ASSERT_OK_AND_ASSIGN(ParsedFlags parsed,
                          ParseFlags(kAllowed, {"a", "--text=x=y", "-rate", "2.5", "--nocolor", "--count=3",
                                                "--nproc-per-node=4", "b", "--", "--c"}));
  EXPECT_THAT(parsed.arguments, ElementsAre("a", "b", "--c"));
  EXPECT_FALSE(parsed.help);
  EXPECT_EQ(FLAGS_text, "x=y");
  EXPECT_EQ(FLAGS_rate, 2.5);
  EXPECT_FALSE(FLAGS_color);
  EXPECT_EQ(FLAGS_count, 3u);
  EXPECT_EQ(FLAGS_nproc_per_node, 4);
}

TEST_F(FlagParserTest, NegatesWithAndWithoutUnderscore) {
  ASSERT_THAT(ParseFlags(kAllowed, {"--no_color", "--normal"}), IsOk());
  EXPECT_FALSE(FLAGS_color);
  EXPECT_TRUE(FLAGS_normal);
  ASSERT_THAT(ParseFlags(kAllowed, {"--color", "--no_normal"}), IsOk());
  EXPECT_TRUE(FLAGS_color);
  EXPECT_FALSE(FLAGS_normal);
}

TEST_F(FlagParserTest, KnowsTheShortNames) {
  SW_ASSERT_OK_AND_ASSIGN(ParsedFlags parsed, ParseFlags(kAllowed, {"--nproc=3", "-h"}));
  EXPECT_EQ(FLAGS_nproc_per_node, 3);
  EXPECT_TRUE(parsed.help);
}

TEST_F(FlagParserTest, ALoneDashIsAnArgument) {
  SW_ASSERT_OK_AND_ASSIGN(ParsedFlags parsed, ParseFlags(kAllowed, {"-"}));
  EXPECT_THAT(parsed.arguments, ElementsAre("-"));
}

TEST_F(FlagParserTest, NegativeNumbersAreValues) {
  ASSERT_THAT(ParseFlags(kAllowed, {"--nproc_per_node", "-3"}), IsOk());
  EXPECT_EQ(FLAGS_nproc_per_node, -3);
}

TEST_F(FlagParserTest, AMisspeltFlagIsAnsweredWithTheNearest) {
  EXPECT_THAT(ParseFlags(kAllowed, {"--nproc_per_nod=2"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--nproc_per_nod"), HasSubstr("did you mean --nproc_per_node?"))));
}

TEST_F(FlagParserTest, AFlagOfAnotherVerbIsUnknown) {
  EXPECT_THAT(ParseFlags(kAllowed, {"--foreign=1"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown flag --foreign")));
  EXPECT_THAT(FLAGS_foreign, IsEmpty());
}

TEST_F(FlagParserTest, AValueOfTheWrongTypeIsNamed) {
  EXPECT_THAT(ParseFlags(kAllowed, {"--nproc_per_node=two"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--nproc_per_node"), HasSubstr("whole number"), HasSubstr("\"two\""))));
  EXPECT_THAT(ParseFlags(kAllowed, {"--rate="}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--rate")));
  EXPECT_THAT(ParseFlags(kAllowed, {"--color=perhaps"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("true or false")));
  EXPECT_THAT(ParseFlags(kAllowed, {"--count=-1"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--count")));
}

TEST_F(FlagParserTest, AMissingValueIsNamed) {
  EXPECT_THAT(ParseFlags(kAllowed, {"--text"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--text needs a value")));
}

TEST_F(FlagParserTest, AFlagFileComesBackAsWritten) {
  ASSERT_THAT(ParseFlags(kAllowed, {"--text=a b = c", "--nproc_per_node=5", "--nocolor"}), IsOk());
  const std::string path = ::testing::TempDir() + "/flags";
  std::ofstream(path) << "# a comment\n\n" << FlagFileOf(kAllowed);
  FLAGS_text.clear();
  FLAGS_color = true;
  ASSERT_THAT(ParseFlags(kAllowed, {"--flagfile=" + path, "--nproc_per_node=6"}), IsOk());
  EXPECT_EQ(FLAGS_text, "a b = c");
  EXPECT_FALSE(FLAGS_color);
  EXPECT_EQ(FLAGS_nproc_per_node, 6);
}

TEST_F(FlagParserTest, AFlagFileIsHeldToTheSameRules) {
  const std::string path = ::testing::TempDir() + "/bad_flags";
  std::ofstream(path) << "--foreign=1\n";
  EXPECT_THAT(ParseFlags(kAllowed, {"--flagfile", path}),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(path), HasSubstr("--foreign"))));
  EXPECT_THAT(ParseFlags(kAllowed, {"--flagfile=/nowhere"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/nowhere")));
  std::ofstream(path) << "--flagfile=" << path << "\n";
  EXPECT_THAT(ParseFlags(kAllowed, {"--flagfile=" + path}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too deeply")));
}

}  // namespace
}  // namespace shardwright::cli
