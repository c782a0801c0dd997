#include "shardwright/cli/sample_command.h"

#include <gflags/gflags.h>

#include <cstdio>

#include "shardwright/cli/app/sample.h"
#include "shardwright/cli/common_flags.h"
#include "shardwright/cli/exec_sibling.h"

DEFINE_string(prompt, "", "text to continue; empty: a line's beginning");
DEFINE_int64(tokens, 200, "how many tokens to add");
DEFINE_double(temperature, 0.8, "randomness of each choice; 0 takes the likeliest token");

namespace shardwright::cli {
namespace {

int Run(const TrainTables& tables, const std::vector<std::string>& arguments) {
  app::SampleOptions options;
  absl::StatusOr<CheckLevel> check = ParseCheckLevel(FLAGS_check);
  if (!check.ok()) return ReportError("sample", check.status());
  if (FLAGS_tokens < 0 || FLAGS_temperature < 0) {
    return ReportError("sample", absl::InvalidArgumentError("--tokens and --temperature must not be negative"));
  }
  options.path = arguments[0];
  options.prompt = FLAGS_prompt;
  options.tokens = FLAGS_tokens;
  options.temperature = FLAGS_temperature;
  options.seed = FLAGS_seed;
  options.check = *check;
  options.device = FLAGS_device;
  absl::StatusOr<app::Sample> sample = app::GenerateSample(options, tables);
  if (!sample.ok()) return ReportError("sample", sample.status());
  if (!FLAGS_quiet) std::fprintf(stderr, "%s\n", sample->checkpoint.c_str());
  std::fwrite(sample->text.data(), 1, sample->text.size(), stdout);
  std::fputc('\n', stdout);
  return kExitGood;
}

}  // namespace

Command SampleCommand(const TrainTables& tables) {
  return {.name = "sample",
          .arguments = "CHECKPOINT",
          .summary = kSampleSummary,
          .details = "CHECKPOINT may be a run's directory: its newest checkpoint is taken.",
          .flags = {"prompt", "tokens", "temperature", "seed", "device", "check", "quiet"},
          .min_arguments = 1,
          .max_arguments = 1,
          .run = [tables](const std::vector<std::string>& arguments) { return Run(tables, arguments); }};
}

}  // namespace shardwright::cli
