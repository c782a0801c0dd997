#include "shardwright/tests/gpu/device_trial.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "shardwright/core/base/memory_budget.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/models/models.h"
#include "shardwright/strategies/strategies.h"

namespace shardwright::testing {
namespace {

constexpr int64_t kWarmUpSteps = 3;
constexpr int64_t kResumedSteps = 5;

// A line of /proc/self/status, in bytes; 0 where there is none.
uint64_t StatusBytes(absl::string_view key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t:"), absl::SkipEmpty());
    uint64_t kibibytes = 0;
    if (words.size() >= 2 && words[0] == key && absl::SimpleAtoi(words[1], &kibibytes)) return kibibytes * 1024;
  }
  return 0;
}

// How far resident memory rises above what it was.
class MemoryRise {
 public:
  MemoryRise() : before_(StatusBytes("VmRSS")) { std::ofstream("/proc/self/clear_refs") << "5"; }
  uint64_t bytes() const { return std::max(StatusBytes("VmHWM"), before_) - before_; }

 private:
  const uint64_t before_;
};

// The only rank of a world, with a strategy that is set up.
struct Run {
  CommGroups groups;
  MemoryBudget budget;
  std::unique_ptr<Strategy> strategy;
  int64_t sample_tokens = 0;
};

absl::StatusOr<std::unique_ptr<Run>> Start(const TrialCase& trial, const Device& device, Storage& storage,
                                           uint64_t seed) {
  auto run = std::make_unique<Run>();
  SW_ASSIGN_OR_RETURN(run->groups, ConnectC10d(RankEnvironment{}, {.data_device = device}));
  SW_ASSIGN_OR_RETURN(const ModelFactory model, BuiltinModels().Find(trial.model));
  ModelOptions options = model.defaults;
  for (const auto& [name, value] : trial.options) options[name] = value;
  SW_ASSIGN_OR_RETURN(std::unique_ptr<Module> module, model.make(options));
  run->sample_tokens = module->sample_tokens();
  SW_ASSIGN_OR_RETURN(const StrategyFactory make, BuiltinStrategies().Find(trial.strategy));
  StrategyOptions strategy;
  strategy.seed = seed;
  strategy.clip_gradient_norm = 1;
  strategy.compute_dtype = trial.compute_dtype;
  run->strategy = make(strategy, {&run->groups, &storage, &run->budget, World{}, device});
  SW_RETURN_IF_ERROR(run->strategy->Setup(std::move(module)));
  return run;
}

// Text that can be learned: each token tells the next.
Batch MakeBatch(const TrialCase& trial, const Run& run, int64_t step) {
  Batch batch{.samples = trial.samples, .sample_tokens = run.sample_tokens, .tokens = {}};
  for (int64_t sample = 0; sample < trial.samples; ++sample) {
    int64_t token = (step * 31 + sample * 17) % 256;
    for (int64_t i = 0; i < run.sample_tokens; ++i) {
      batch.tokens.push_back(static_cast<int32_t>(token));
      token = (token * 5 + 3) % 256;
    }
  }
  return batch;
}

// Losses of the steps [from, to).
absl::StatusOr<std::vector<double>> Train(const TrialCase& trial, Run& run, int64_t from, int64_t to) {
  std::vector<double> losses;
  for (int64_t step = from; step < to; ++step) {
    SW_ASSIGN_OR_RETURN(const StepResult result, run.strategy->TrainStep({MakeBatch(trial, run, step)}, step));
    losses.push_back(result.loss);
  }
  return losses;
}

// Names of the tensors whose content differs.
absl::StatusOr<std::vector<std::string>> Differences(Storage& storage, const std::string& a, const std::string& b) {
  SW_ASSIGN_OR_RETURN(const std::shared_ptr<const Manifest> left, OpenManifest(storage, a));
  SW_ASSIGN_OR_RETURN(const std::shared_ptr<const Manifest> right, OpenManifest(storage, b));
  if (left->tensors().size() != right->tensors().size()) return std::vector<std::string>{"their number"};
  std::vector<std::string> names;
  for (const TensorEntry& entry : left->tensors()) {
    const TensorEntry* const other = right->Find(entry.meta.name);
    const auto same_content = [](const ShardMeta& x, const ShardMeta& y) { return x.box == y.box && x.hash == y.hash; };
    if (other == nullptr || other->meta != entry.meta ||
        !std::equal(entry.shards.begin(), entry.shards.end(), other->shards.begin(), other->shards.end(),
                    same_content)) {
      names.push_back(entry.meta.name);
    }
  }
  return names;
}

class Trial {
 public:
  Trial(const TrialCase& trial, const Device& device, Storage& storage, const std::string& folder)
      : trial_(trial), device_(device), storage_(storage), folder_(folder) {}

  absl::StatusOr<TrialResult> Run() {
    SW_RETURN_IF_ERROR(storage_.CreateDirectories(folder_));
    SW_RETURN_IF_ERROR(TrainAndResume()) << "on " << device_.ToString();
    SW_RETURN_IF_ERROR(Move("trained", Device{})) << "from " << device_.ToString() << " to the CPU";
    SW_RETURN_IF_ERROR(TrainOnCpu()) << "on the CPU";
    SW_RETURN_IF_ERROR(Move("cpu", device_)) << "from the CPU to " << device_.ToString();
    SW_RETURN_IF_ERROR(RemoveTree(storage_, folder_));
    return std::move(result_);
  }

 private:
  absl::Status TrainAndResume() {
    SW_ASSIGN_OR_RETURN(const std::unique_ptr<testing::Run> first, Start(trial_, device_, storage_, /*seed=*/1));
    result_.state_bytes = first->strategy->ResidentBytes();
    SW_RETURN_IF_ERROR(Train(trial_, *first, 0, kWarmUpSteps));
    const int64_t saved_step = kWarmUpSteps + trial_.steps;
    const absl::Time begin = absl::Now();
    SW_RETURN_IF_ERROR(Train(trial_, *first, kWarmUpSteps, saved_step));
    result_.steps_per_second = static_cast<double>(trial_.steps) / absl::ToDoubleSeconds(absl::Now() - begin);
    const Value::Map random = first->strategy->RandomState();
    SW_RETURN_IF_ERROR(Save(*first, "trained"));
    SW_ASSIGN_OR_RETURN(const std::vector<double> whole, Train(trial_, *first, saved_step, saved_step + kResumedSteps));
    SW_RETURN_IF_ERROR(Save(*first, "whole"));

    SW_ASSIGN_OR_RETURN(const std::unique_ptr<testing::Run> second, Start(trial_, device_, storage_, /*seed=*/2));
    SW_RETURN_IF_ERROR(Load(*second, "trained"));
    SW_RETURN_IF_ERROR(second->strategy->SetRandomState(random));
    SW_ASSIGN_OR_RETURN(const std::vector<double> resumed,
                        Train(trial_, *second, saved_step, saved_step + kResumedSteps));
    SW_RETURN_IF_ERROR(Save(*second, "resumed"));
    if (resumed != whole) Problem("resumed losses differ from the uninterrupted ones");
    return Compare("whole", "resumed", "resumed");
  }

  absl::Status TrainOnCpu() {
    SW_ASSIGN_OR_RETURN(const std::unique_ptr<testing::Run> run, Start(trial_, Device{}, storage_, /*seed=*/3));
    SW_RETURN_IF_ERROR(Train(trial_, *run, 0, 1));
    return run->strategy->Save({.path = PathOf("cpu")}).status();
  }

  // Loads what lies at `from` on another device and saves it again: nothing may change.
  absl::Status Move(const std::string& from, const Device& to) {
    SW_ASSIGN_OR_RETURN(const std::unique_ptr<testing::Run> run, Start(trial_, to, storage_, /*seed=*/4));
    SW_RETURN_IF_ERROR(run->strategy->Load({.path = PathOf(from)}));
    const std::string moved = absl::StrCat(from, "-moved");
    SW_RETURN_IF_ERROR(run->strategy->Save({.path = PathOf(moved)}));
    return Compare(from, moved, absl::StrCat("moved to ", to.ToString()));
  }

  absl::Status Save(testing::Run& run, const std::string& name) {
    run.budget.ResetPeak();
    const MemoryRise rise;
    SW_ASSIGN_OR_RETURN(const SaveReport report, run.strategy->Save({.path = PathOf(name)}));
    Measure(run, rise, report.total_bytes, report.duration, result_.save_bytes_per_second);
    return absl::OkStatus();
  }

  absl::Status Load(testing::Run& run, const std::string& name) {
    run.budget.ResetPeak();
    const MemoryRise rise;
    const LoadRequest request{.path = PathOf(name), .io = {.verify_first = false}};
    SW_ASSIGN_OR_RETURN(const LoadResult loaded, run.strategy->Load(request));
    Measure(run, rise, loaded.report.bytes_read, loaded.report.duration, result_.load_bytes_per_second);
    return absl::OkStatus();
  }

  void Measure(const testing::Run& run, const MemoryRise& rise, uint64_t bytes, absl::Duration duration, double& rate) {
    rate = std::max(rate, static_cast<double>(bytes) / absl::ToDoubleSeconds(duration));
    result_.transient_bytes = std::max(result_.transient_bytes, run.budget.peak_bytes());
    result_.grown_bytes = std::max(result_.grown_bytes, rise.bytes());
  }

  absl::Status Compare(const std::string& a, const std::string& b, const std::string& what) {
    SW_ASSIGN_OR_RETURN(const std::vector<std::string> names, Differences(storage_, PathOf(a), PathOf(b)));
    if (!names.empty()) Problem(absl::StrCat(what, ": ", names.size(), " tensors differ, ", names[0], " first"));
    return RemoveTree(storage_, PathOf(b));
  }

  void Problem(std::string problem) { result_.problems.push_back(std::move(problem)); }
  std::string PathOf(const std::string& name) const { return JoinPath(folder_, name); }

  const TrialCase& trial_;
  const Device device_;
  Storage& storage_;
  const std::string folder_;
  TrialResult result_;
};

}  // namespace

absl::StatusOr<TrialResult> RunTrial(const TrialCase& trial, const Device& device, Storage& storage,
                                     const std::string& folder) {
  return Trial(trial, device, storage, folder).Run();
}

}  // namespace shardwright::testing
