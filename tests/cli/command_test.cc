#include "shardwright/cli/command.h"

#include <gflags/gflags.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

DEFINE_int32(depth, 3, "how deep it digs");

namespace shardwright::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_status;
  std::string out;
  std::string err;
};

class CommandTest : public ::testing::Test {
 protected:
  Outcome Run(std::vector<std::string> words) {
    words.insert(words.begin(), "shardwright");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    const Command dig{.name = "dig",
                      .arguments = "PLACE",
                      .summary = "Dig a hole.",
                      .flags = {"depth"},
                      .min_arguments = 1,
                      .max_arguments = 1,
                      .run = [this](const std::vector<std::string>& arguments) {
                        arguments_ = arguments;
                        return 7;
                      }};
    const Command pass{.name = "pass",
                       .summary = "Hand on.",
                       .passes_flags_on = true,
                       .run = [this](const std::vector<std::string>& arguments) {
                         arguments_ = arguments;
                         return 0;
                       }};
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = RunCommandLine(static_cast<int>(argv.size()), argv.data(), {dig, pass});
    return {status, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
  }

  std::vector<std::string> arguments_;

 private:
  gflags::FlagSaver saver_;
};

TEST_F(CommandTest, RunsTheVerbAndKeepsItsStatus) {
  EXPECT_EQ(Run({"dig", "--depth=9", "here"}).exit_status, 7);
  EXPECT_THAT(arguments_, ElementsAre("here"));
  EXPECT_EQ(FLAGS_depth, 9);
}

TEST_F(CommandTest, HelpGoesToStdoutAndExitsZero) {
  for (const char* word : {"--help", "-h", "help"}) {
    const Outcome outcome = Run({word});
    EXPECT_EQ(outcome.exit_status, kExitGood) << word;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("dig"), HasSubstr("Dig a hole."), HasSubstr("pass"))) << word;
  }
}

TEST_F(CommandTest, HelpOfAVerbShowsItsOwnFlagsOnly) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"dig", "--help"}, {"dig", "here", "-h"}, {"help", "dig"}}) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_status, kExitGood);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("usage: shardwright dig [FLAGS] PLACE"), HasSubstr("--depth=3"),
                                   HasSubstr("how deep it digs"), Not(HasSubstr("--help="))));
  }
}

TEST_F(CommandTest, NoVerbIsBadUsage) {
  const Outcome outcome = Run({});
  EXPECT_EQ(outcome.exit_status, kExitUsage);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("usage: shardwright VERB"));
}

TEST_F(CommandTest, BadUsageNamesTheMistakeAndTheWayOut) {
  Outcome outcome = Run({"dug"});
  EXPECT_EQ(outcome.exit_status, kExitUsage);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("\"dug\""), HasSubstr("did you mean \"dig\"?"), HasSubstr("--help")));
  outcome = Run({"dig"});
  EXPECT_EQ(outcome.exit_status, kExitUsage);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("dig: needs PLACE"), HasSubstr("shardwright dig --help")));
  outcome = Run({"dig", "a", "b"});
  EXPECT_EQ(outcome.exit_status, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("got 2"));
  outcome = Run({"dig", "--dept=1", "a"});
  EXPECT_EQ(outcome.exit_status, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("did you mean --depth?"));
  outcome = Run({"--depth=1", "dig"});
  EXPECT_EQ(outcome.exit_status, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("the verb comes first"));
}

TEST_F(CommandTest, AVerbThatPassesFlagsOnGetsThemAll) {
  EXPECT_EQ(Run({"pass", "--anything=1", "--help", "x"}).exit_status, kExitGood);
  EXPECT_THAT(arguments_, ElementsAre("--anything=1", "--help", "x"));
}

TEST(ReportErrorTest, MapsCodesToExitStatuses) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ReportError("v", absl::NotFoundError("gone")), kExitUnreadable);
  EXPECT_EQ(ReportError("v", absl::PermissionDeniedError("no")), kExitUnreadable);
  EXPECT_EQ(ReportError("v", absl::InvalidArgumentError("bad")), kExitUsage);
  EXPECT_EQ(ReportError("v", absl::DataLossError("broken")), kExitFailed);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("shardwright v: gone\n"));
}

}  // namespace
}  // namespace shardwright::cli
