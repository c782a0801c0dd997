#include "shardwright/cli/app/train.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/cli/app/choose_device.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/device/host_memory.h"
#include "shardwright/core/storage/posix.h"

namespace shardwright::app {
namespace {

std::string ResolveStrategy(const std::string& name, int32_t world_size) {
  if (name != "auto") return name;
  return world_size == 1 ? "single_device" : "ddp";
}

// The schedule's length follows --max_steps unless it is given; it may change when a run is extended.
constexpr char kTotalSteps[] = "total_steps";

absl::StatusOr<ModelOptions> EffectiveModelOptions(const TrainOptions& options, const ModelFactory& factory) {
  SW_ASSIGN_OR_RETURN(ModelOptions effective, CompleteModelOptions(options.model, factory, options.model_options));
  if (effective.count(kTotalSteps) > 0 && options.model_options.count(kTotalSteps) == 0) {
    effective[kTotalSteps] = absl::StrCat(options.max_steps);
  }
  return effective;
}

// What a continued run must not change, and what `sample` needs to build the model again.
Value::Map FixedConfig(const TrainOptions& options, const ModelOptions& effective) {
  Value::Map model_options;
  for (const auto& [name, value] : effective) {
    if (name != kTotalSteps) model_options[name] = Value(value);
  }
  return {{"model", options.model}, {"model_options", std::move(model_options)}};
}

// Writes the flagfile once the run has started: a run that is refused leaves the old one as it was.
class FlagFileWriter : public Callback {
 public:
  FlagFileWriter(Storage& storage, const TrainOptions& options) : storage_(storage), options_(options) {}
  absl::string_view name() const override { return "flag_file"; }
  bool MayActAt(int64_t step) const override { return false; }

  void OnTrainStart(const TrainState& state) override {
    if (state.rank != 0 || options_.flag_file.empty()) return;
    const std::string path = JoinPath(options_.run_directory, "flags");
    const std::string aside = JoinPath(options_.run_directory, ".tmp-flags");
    // Best effort: a run does not fail for want of its reminder.
    storage_.RemoveFile(aside).IgnoreError();
    if (WriteWholeFile(storage_, aside, options_.flag_file).ok()) storage_.Rename(aside, path).IgnoreError();
  }

 private:
  Storage& storage_;
  const TrainOptions& options_;
};

absl::StatusOr<std::vector<std::unique_ptr<Callback>>> MakeCallbacks(const TrainOptions& options,
                                                                     const TrainTables& tables) {
  std::vector<std::unique_ptr<Callback>> callbacks;
  for (const std::string& name : options.callbacks) {
    SW_ASSIGN_OR_RETURN(CallbackFactory make, tables.callbacks.Find(name));
    callbacks.push_back(make(options.callback_options));
  }
  return callbacks;
}

// Plans compare what all ranks of a node hold together with it.
uint64_t HostBudget(const TrainOptions& options) {
  return options.host_memory_budget_bytes > 0 ? options.host_memory_budget_bytes : AvailableHostBytes() / 10 * 8;
}

TrainerOptions ToTrainerOptions(const TrainOptions& options, const ModelOptions& effective) {
  TrainerOptions trainer;
  trainer.run_directory = options.run_directory;
  trainer.max_steps = options.max_steps;
  trainer.batch_size = options.batch_size;
  trainer.accumulate_steps = options.accumulate_steps;
  trainer.seed = options.seed;
  trainer.resume = options.resume;
  trainer.init_from = options.init_from;
  trainer.strict = options.strict;
  trainer.check = options.check;
  trainer.fixed_config = FixedConfig(options, effective);
  return trainer;
}

StrategyOptions ToStrategyOptions(const TrainOptions& options) {
  StrategyOptions strategy;
  strategy.seed = options.seed;
  strategy.clip_gradient_norm = options.clip_gradient_norm;
  strategy.compute_dtype = options.compute_dtype;
  strategy.recompute_activations = options.recompute_activations;
  strategy.save_layout = options.save_layout;
  return strategy;
}

// The parts of a run that can be made without other ranks.
struct LocalParts {
  ModelOptions model_options;
  std::unique_ptr<Module> module;
  std::unique_ptr<TextData> data;
  StrategyFactory make_strategy;
  std::vector<std::unique_ptr<Callback>> callbacks;
};

absl::Status CheckDivisible(const TrainOptions& options, int32_t world_size) {
  const int64_t pieces = int64_t{world_size} * options.accumulate_steps;
  if (options.batch_size > 0 && options.accumulate_steps > 0 && options.batch_size % pieces == 0)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--batch_size=", options.batch_size, " (samples of a step over all ranks) must be a multiple of world size ",
      world_size, " x --accumulate_steps=", options.accumulate_steps));
}

absl::StatusOr<LocalParts> MakeLocalParts(const TrainOptions& options, const TrainTables& tables, int32_t world_size) {
  LocalParts parts;
  if (options.data.empty()) {
    return absl::InvalidArgumentError(
        "--data is missing: a file or folder of text, for instance /usr/share/games/fortunes");
  }
  SW_ASSIGN_OR_RETURN(ModelFactory model, tables.models.Find(options.model));
  SW_ASSIGN_OR_RETURN(parts.model_options, EffectiveModelOptions(options, model));
  const std::string strategy = ResolveStrategy(options.strategy, world_size);
  SW_ASSIGN_OR_RETURN(parts.make_strategy, tables.strategies.Find(strategy));
  if (strategy == "single_device" && world_size > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--strategy=single_device runs on one rank, got ", world_size, "; for several take ddp or zero3"));
  }
  SW_RETURN_IF_ERROR(CheckDivisible(options, world_size));
  SW_ASSIGN_OR_RETURN(parts.callbacks, MakeCallbacks(options, tables));
  SW_ASSIGN_OR_RETURN(parts.module, model.make(parts.model_options));
  SW_ASSIGN_OR_RETURN(parts.data, TextData::Open(options.data, parts.module->sample_tokens()));
  return parts;
}

std::string RunTitle(const TrainOptions& options, const Module& module, const StrategyContext& context) {
  return absl::StrCat(options.run_directory, " · ", module.Describe(), " · ",
                      ResolveStrategy(options.strategy, context.world.size), " × ", context.world.size,
                      context.device.is_cuda() ? " · cuda" : "");
}

}  // namespace

absl::Status CheckTrainOptions(const TrainOptions& options, const TrainTables& tables, int32_t world_size) {
  // Of the last of them, all on this machine: if there is one for it, there is for the others.
  SW_RETURN_IF_ERROR(ChooseDevice(options.device, /*local_rank=*/world_size - 1, world_size));
  return MakeLocalParts(options, tables, world_size).status();
}

absl::StatusOr<TrainResult> Train(const TrainOptions& options, const TrainTables& tables,
                                  const RankEnvironment& environment, const NoteFunction& note) {
  SW_ASSIGN_OR_RETURN(LocalParts parts, MakeLocalParts(options, tables, environment.world_size));
  SW_ASSIGN_OR_RETURN(const Device device,
                      ChooseDevice(options.device, environment.local_rank, environment.local_world_size));
  SW_ASSIGN_OR_RETURN(CommGroups groups, ConnectC10d(environment, {.data_device = device, .timeout = options.timeout}));
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  const World world{environment.world_size, environment.local_world_size};
  MemoryBudget budget(HostBudget(options));
  const StrategyContext context{&groups, storage.get(), &budget, world, device};
  if (groups.rank() == 0) note(RunTitle(options, *parts.module, context));
  parts.callbacks.push_back(std::make_unique<FlagFileWriter>(*storage, options));
  Trainer trainer(ToTrainerOptions(options, parts.model_options), context,
                  parts.make_strategy(ToStrategyOptions(options), context), std::move(parts.callbacks),
                  std::move(parts.data), note);
  return trainer.Run(std::move(parts.module));
}

}  // namespace shardwright::app
