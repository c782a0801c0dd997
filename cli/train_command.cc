#include "shardwright/cli/train_command.h"

#include <gflags/gflags.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "shardwright/cli/app/train.h"
#include "shardwright/cli/common_flags.h"
#include "shardwright/cli/exec_sibling.h"
#include "shardwright/cli/flag_parser.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/comm/launcher.h"

DEFINE_string(model, "gpt", "what to train: a row of the model table");
DEFINE_string(model_options, "", "the model's own options: name=value,name=value");
DEFINE_string(data, "", "text to train on: a file, or a folder that is read recursively");
DEFINE_string(
    strategy, "auto",
    "who holds what: single_device, ddp, zero1 (optimizer state sharded), zero2 (gradients too), zero3 (parameters "
    "too; also known as fsdp); auto takes single_device for one rank, ddp for more");
DEFINE_string(precision, "fp32", "what is computed in: fp32, or bf16; state is kept as the model has it");
DEFINE_bool(recompute_activations, false,
            "compute the activations of each unit (block) again in backward instead of keeping them");
DEFINE_string(run_dir, "", "folder of the run's checkpoints; empty: runs/<model>");
DEFINE_string(callbacks, "model_checkpoint,progress", "callbacks to run, by name");
DEFINE_int32(nproc_per_node, 1, "ranks to start on this machine; under torchrun or SLURM leave it at 1");
DEFINE_int64(max_steps, 200, "optimizer steps of the whole run");
DEFINE_int64(batch_size, 32, "samples of one optimizer step, over all ranks");
DEFINE_int64(accumulate_steps, 1, "micro-batches that make one optimizer step");
DEFINE_double(clip_gradient_norm, 1.0, "largest norm of the gradient; 0: no clipping");
DEFINE_int64(save_every_steps, 100, "save after every so many steps; 0: at the end only");
DEFINE_bool(save_last, true, "keep the link `last` on the newest checkpoint");
DEFINE_string(save_layout, "sharded", "sharded: each rank its own files; single_file: whole tensors in shared files");
DEFINE_int64(log_every_steps, 10, "a progress line after every so many steps, where the output is no terminal");
DEFINE_string(resume, "auto", "auto: the newest intact checkpoint, or a fresh start; none: fresh; or a step or a path");
DEFINE_string(init_from, "", "checkpoint whose weights a fresh run starts from; counters and optimizer start anew");
DEFINE_bool(strict, true, "on load, missing, unexpected or misshapen tensors are errors; false skips and lists them");
DEFINE_string(timeout, "10m", "longest wait for another rank before the run gives up: 90s, 10m");
DEFINE_string(host_memory_budget, "auto",
              "transient memory of one node for loads and saves: 2GiB; auto: 80 % of what is free");

namespace shardwright::cli {
namespace {

// In the order of the help; tests freeze it.
const std::vector<std::string>& TrainFlags() {
  static const auto& flags = *new std::vector<std::string>{"data",
                                                           "model",
                                                           "model_options",
                                                           "strategy",
                                                           "nproc_per_node",
                                                           "device",
                                                           "run_dir",
                                                           "max_steps",
                                                           "batch_size",
                                                           "accumulate_steps",
                                                           "clip_gradient_norm",
                                                           "precision",
                                                           "recompute_activations",
                                                           "seed",
                                                           "resume",
                                                           "init_from",
                                                           "strict",
                                                           "check",
                                                           "save_every_steps",
                                                           "save_last",
                                                           "save_layout",
                                                           "log_every_steps",
                                                           "callbacks",
                                                           "timeout",
                                                           "host_memory_budget",
                                                           "quiet"};
  return flags;
}

// Flags that say how one call starts, not what the run is.
std::string ReusableFlags() {
  std::string lines;
  for (absl::string_view line : absl::StrSplit(FlagFileOf(TrainFlags()), '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, "--resume=")) absl::StrAppend(&lines, line, "\n");
  }
  return lines;
}

int TerminalColumns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

absl::Status CheckPositive(absl::string_view flag, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " must be at least ", least, ", got ", value));
}

absl::Status CheckNumbers() {
  SW_RETURN_IF_ERROR(CheckPositive("nproc_per_node", FLAGS_nproc_per_node, 1));
  SW_RETURN_IF_ERROR(CheckPositive("max_steps", FLAGS_max_steps, 0));
  SW_RETURN_IF_ERROR(CheckPositive("batch_size", FLAGS_batch_size, 1));
  SW_RETURN_IF_ERROR(CheckPositive("accumulate_steps", FLAGS_accumulate_steps, 1));
  SW_RETURN_IF_ERROR(CheckPositive("save_every_steps", FLAGS_save_every_steps, 0));
  SW_RETURN_IF_ERROR(CheckPositive("log_every_steps", FLAGS_log_every_steps, 1));
  if (!(FLAGS_clip_gradient_norm >= 0)) return absl::InvalidArgumentError("--clip_gradient_norm must not be negative");
  return absl::OkStatus();
}

absl::StatusOr<DType> ParsePrecision(absl::string_view text) {
  if (text == "fp32") return DType::kFloat32;
  if (text == "bf16") return DType::kBFloat16;
  return absl::InvalidArgumentError(absl::StrCat("--precision must be fp32 or bf16, got \"", text, "\""));
}

CallbackOptions CallbackOptionsFromFlags() {
  CallbackOptions options;
  options.save_every_steps = FLAGS_save_every_steps;
  options.save_last = FLAGS_save_last;
  options.log_every_steps = FLAGS_log_every_steps;
  options.quiet = FLAGS_quiet;
  options.terminal = isatty(STDERR_FILENO) != 0;
  options.terminal_columns = TerminalColumns();
  return options;
}

absl::StatusOr<app::TrainOptions> OptionsFromFlags() {
  SW_RETURN_IF_ERROR(CheckNumbers());
  app::TrainOptions options;
  options.model = FLAGS_model;
  SW_ASSIGN_OR_RETURN(options.model_options, app::ParseModelOptions(FLAGS_model_options));
  options.data = FLAGS_data;
  options.strategy = FLAGS_strategy;
  options.device = FLAGS_device;
  options.run_directory = FLAGS_run_dir.empty() ? absl::StrCat("runs/", FLAGS_model) : FLAGS_run_dir;
  options.callbacks = absl::StrSplit(FLAGS_callbacks, ',', absl::SkipWhitespace());
  options.max_steps = FLAGS_max_steps;
  options.batch_size = FLAGS_batch_size;
  options.accumulate_steps = FLAGS_accumulate_steps;
  options.seed = FLAGS_seed;
  options.clip_gradient_norm = FLAGS_clip_gradient_norm;
  SW_ASSIGN_OR_RETURN(options.compute_dtype, ParsePrecision(FLAGS_precision));
  options.recompute_activations = FLAGS_recompute_activations;
  options.resume = FLAGS_resume;
  options.init_from = FLAGS_init_from;
  options.strict = FLAGS_strict;
  SW_ASSIGN_OR_RETURN(options.check, ParseCheckLevel(FLAGS_check));
  SW_ASSIGN_OR_RETURN(options.save_layout, ParseSaveLayout(FLAGS_save_layout));
  options.callback_options = CallbackOptionsFromFlags();
  if (!absl::ParseDuration(FLAGS_timeout, &options.timeout) || options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--timeout wants a time like 90s or 10m, got \"", FLAGS_timeout, "\""));
  }
  if (FLAGS_host_memory_budget != "auto") {
    SW_ASSIGN_OR_RETURN(options.host_memory_budget_bytes, ParseBytes(FLAGS_host_memory_budget),
                        _ << "--host_memory_budget");
  }
  options.flag_file = ReusableFlags();
  return options;
}

// Starts this program once per rank, with the same flags.
absl::StatusOr<int> LaunchSelf() {
  SW_ASSIGN_OR_RETURN(std::unique_ptr<HostedStore> store, HostStore(FLAGS_nproc_per_node));
  std::vector<std::string> argv = {SelfPath(), "train"};
  for (absl::string_view line : absl::StrSplit(FlagFileOf(TrainFlags()), '\n', absl::SkipEmpty()))
    argv.emplace_back(line);
  LaunchOptions options;
  options.ranks = FLAGS_nproc_per_node;
  options.store_port = store->port();
  options.first_failed_rank = [&store] { return store->FirstFailedRank(); };
  return LaunchRanks(argv, options);
}

void Note(absl::string_view line) {
  if (!FLAGS_quiet) std::fprintf(stderr, "%s\n", std::string(line).c_str());
}

// An error that another rank told us of is shown by that rank.
bool IsEcho(const absl::Status& status, int32_t rank) {
  return absl::StartsWith(status.message(), "rank ") &&
         !absl::StartsWith(status.message(), absl::StrCat("rank ", rank, ":"));
}

int Finish(const absl::StatusOr<TrainResult>& result, const app::TrainOptions& options,
           const RankEnvironment& environment) {
  if (!result.ok()) {
    if (environment.world_size == 1) return ReportError("train", result.status());
    if (IsEcho(result.status(), environment.rank)) return ExitStatusOf(result.status());
    return ReportError("train", Annotate(result.status(), absl::StrCat("rank ", environment.rank)));
  }
  if (result->stop_signal != 0) {
    if (environment.rank == 0)
      Note(absl::StrCat("continue: shardwright train --flagfile=", options.run_directory, "/flags"));
    return 128 + result->stop_signal;
  }
  if (environment.rank == 0 && !result->last_checkpoint.empty()) {
    Note(absl::StrCat("next: shardwright inspect ", result->last_checkpoint));
  }
  return kExitGood;
}

int Run(const TrainTables& tables, const std::vector<std::string>&) {
  absl::StatusOr<app::TrainOptions> options = OptionsFromFlags();
  if (!options.ok()) return ReportError("train", options.status());
  absl::StatusOr<RankEnvironment> environment = ReadRankEnvironment();
  if (!environment.ok()) return ReportError("train", environment.status());
  const bool launch = environment->world_size == 1 && std::getenv("RANK") == nullptr && FLAGS_nproc_per_node > 1;
  if (launch) {
    const absl::Status usable = app::CheckTrainOptions(*options, tables, FLAGS_nproc_per_node);
    if (!usable.ok()) return ReportError("train", usable);
    absl::StatusOr<int> exit_status = LaunchSelf();
    return exit_status.ok() ? *exit_status : ReportError("train", exit_status.status());
  }
  return Finish(app::Train(*options, tables, *environment, Note), *options, *environment);
}

}  // namespace

Command TrainCommand(const TrainTables& tables) {
  return {.name = "train",
          .summary = kTrainSummary,
          .details =
              "A run lives in its folder: calling the same command again goes on from the newest intact checkpoint.\n"
              "Ctrl-C or SIGTERM saves one checkpoint and stops; a second one stops at once.",
          .flags = TrainFlags(),
          .run = [tables](const std::vector<std::string>& arguments) { return Run(tables, arguments); }};
}

}  // namespace shardwright::cli
