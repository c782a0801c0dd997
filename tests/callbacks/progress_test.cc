#include "shardwright/callbacks/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace shardwright {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// A run of 200 steps, one a second, 41,000 tokens each.
TrainState AtStep(int64_t step, double loss = 3.1135) {
  TrainState state;
  state.progress.step = step;
  state.max_steps = 200;
  state.loss = loss;
  state.step_tokens = 41000;
  state.step_duration = absl::Seconds(1);
  state.elapsed = absl::Seconds(step);
  return state;
}

class ProgressTest : public ::testing::Test {
 protected:
  CallbackOptions Options(bool terminal) {
    CallbackOptions options;
    options.terminal = terminal;
    options.write = [this](absl::string_view text) { absl::StrAppend(&written_, text); };
    return options;
  }

  // What was written since the last call; the terminal's "clear the line" shows as <.
  std::string Written() {
    std::string text = absl::StrReplaceAll(written_, {{"\r\x1b[K", "<"}});
    written_.clear();
    return text;
  }

  std::string written_;
};

TEST_F(ProgressTest, PipeGetsAPlainLineEveryNSteps) {
  Progress progress(Options(false));
  progress.OnTrainStart(AtStep(0));
  for (int64_t step = 41; step <= 60; ++step) progress.OnStepEnd(AtStep(step));
  EXPECT_EQ(Written(),
            "step  50/200  loss 3.11  41k tok/s  eta 2 min 30 s\n"
            "step  60/200  loss 3.11  41k tok/s  eta 2 min 20 s\n");
}

TEST_F(ProgressTest, PipeShowsTheLastStepOnce) {
  Progress progress(Options(false));
  for (int64_t step : {199, 200}) progress.OnStepEnd(AtStep(step));
  progress.OnTrainEnd(AtStep(200));
  EXPECT_EQ(Written(), "step 200/200  loss 3.11  41k tok/s\n");

  CallbackOptions seldom = Options(false);
  seldom.log_every_steps = 0;
  Progress other(seldom);
  for (int64_t step = 1; step <= 7; ++step) other.OnStepEnd(AtStep(step));
  other.OnTrainEnd(AtStep(7));
  EXPECT_THAT(Written(), HasSubstr("step   7/200"));
}

TEST_F(ProgressTest, TerminalRewritesOneLine) {
  Progress progress(Options(true));
  progress.OnStepEnd(AtStep(1));
  progress.OnStepEnd(AtStep(2));
  EXPECT_EQ(Written(),
            "<step   1/200  loss 3.11  41k tok/s  eta 3 min 19 s"
            "<step   2/200  loss 3.11  41k tok/s  eta 3 min 18 s");
}

TEST_F(ProgressTest, TerminalIsNotRewrittenFasterThanAnEyeFollows) {
  Progress progress(Options(true));
  for (int64_t step = 1; step <= 10; ++step) {
    TrainState state = AtStep(step);
    state.elapsed = absl::Milliseconds(30 * step);
    progress.OnStepEnd(state);
  }
  const std::string written = Written();
  EXPECT_THAT(written, HasSubstr("step   1/"));
  EXPECT_THAT(written, Not(HasSubstr("step   2/")));
  EXPECT_THAT(written, HasSubstr("step   5/"));
}

TEST_F(ProgressTest, TerminalLineNeverWraps) {
  for (int columns = 1; columns < 70; ++columns) {
    CallbackOptions options = Options(true);
    options.terminal_columns = columns;
    Progress progress(options);
    Written();  // of the one before
    progress.OnStepEnd(AtStep(1));
    EXPECT_LE(Written().size(), static_cast<size_t>(columns)) << "with one sign for the clearing";
  }
}

TEST_F(ProgressTest, NarrowTerminalsLoseFieldsFromTheEnd) {
  CallbackOptions options = Options(true);
  options.terminal_columns = 30;
  Progress progress(options);
  progress.OnStepEnd(AtStep(1));
  EXPECT_EQ(Written(), "<step   1/200  loss 3.11");
}

TEST_F(ProgressTest, NotesDoNotTearTheLine) {
  Progress progress(Options(true));
  progress.BeforeNote();
  EXPECT_EQ(Written(), "");
  progress.OnStepEnd(AtStep(1));
  Written();
  progress.BeforeNote();
  progress.BeforeNote();
  EXPECT_EQ(Written(), "<");
}

TEST_F(ProgressTest, SavedCheckpointsAreLinesOfTheirOwn) {
  const SavedCheckpoint saved = {
      .path = "run/step-00000100", .step = 100, .total_bytes = 124 << 20, .duration = absl::Milliseconds(212)};
  Progress piped(Options(false));
  piped.OnSaved(saved);
  EXPECT_EQ(Written(), "saved step 100  124 MiB  0.21 s\n");
  Progress terminal(Options(true));
  terminal.OnStepEnd(AtStep(100));
  Written();
  terminal.OnSaved(saved);
  EXPECT_EQ(Written(), "<saved step 100  124 MiB  0.21 s\n");
}

TEST_F(ProgressTest, TheLastLineStaysAfterALastSave) {
  Progress progress(Options(true));
  progress.OnStepEnd(AtStep(200));
  progress.OnSaved({.step = 200});
  Written();
  progress.OnTrainEnd(AtStep(200));
  EXPECT_EQ(Written(), "<step 200/200  loss 3.11  41k tok/s\n");
}

TEST_F(ProgressTest, AnUnfinishedLineIsEndedWhenTheRunIsGone) {
  { Progress(Options(true)).OnStepEnd(AtStep(3)); }
  EXPECT_THAT(Written(), EndsWith("\n"));
}

TEST_F(ProgressTest, NotANumberIsPrintedAsItIs) {
  Progress progress(Options(true));
  progress.OnStepEnd(AtStep(1, std::nan("")));
  EXPECT_THAT(Written(), HasSubstr("loss nan"));
  progress.OnStepEnd(AtStep(2, std::numeric_limits<double>::infinity()));
  EXPECT_THAT(Written(), HasSubstr("loss inf"));
}

TEST_F(ProgressTest, LossesKeepThreeDigits) {
  Progress progress(Options(true));
  progress.OnStepEnd(AtStep(1, 0.0123456));
  EXPECT_THAT(Written(), HasSubstr("loss 0.0123  "));
  progress.OnStepEnd(AtStep(2, 12345.6));
  EXPECT_THAT(Written(), HasSubstr("loss 1.23e+04  "));
  progress.OnStepEnd(AtStep(3, 5.545));
  EXPECT_THAT(Written(), HasSubstr("loss 5.5"));
}

TEST_F(ProgressTest, OtherRanksAndQuietRunsPrintNothing) {
  CallbackOptions quiet = Options(true);
  quiet.quiet = true;
  Progress muted(quiet);
  Progress second(Options(true));
  TrainState state = AtStep(1);
  muted.OnTrainStart(state);
  state.rank = 1;
  second.OnTrainStart(state);
  for (Progress* progress : {&muted, &second}) {
    progress->OnStepEnd(AtStep(200));
    progress->OnSaved({.step = 200});
    progress->OnTrainEnd(AtStep(200));
  }
  EXPECT_EQ(Written(), "");
}

TEST_F(ProgressTest, WishesNothing) {
  Progress progress(Options(false));
  EXPECT_FALSE(progress.MayActAt(10));
  EXPECT_EQ(progress.OnStepEnd(AtStep(10)), Action{});
  EXPECT_EQ(progress.OnTrainEnd(AtStep(10)), Action{});
}

}  // namespace
}  // namespace shardwright
