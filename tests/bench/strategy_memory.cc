// What a strategy's rank holds in memory: after building a model, while it trains, between steps. One JSON line a rank.
//
//   strategy_memory --strategy=zero3 --ranks=4 --model=moe_gpt --model_options=n_layer=22,n_embd=256
//
// Started without RANK it launches its ranks; under torchrun it is one. tests/bench/strategy_memory.py makes a table of
// several worlds. Everything is counted from a base: torch loaded, groups connected, one step of a tiny model of the
// same kind done and forgotten, so that code and threads that are there once do not count as state.
#include <gflags/gflags.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "shardwright/cli/exec_sibling.h"
#include "shardwright/core/base/memory_budget.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/comm/launcher.h"
#include "shardwright/core/models/models.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/core/strategy/strategy.h"
#include "shardwright/strategies/strategies.h"
#include "shardwright/tests/bench/process_memory.h"
#include "shardwright/tests/bench/unit_sizes.h"

DEFINE_string(strategy, "zero3", "whose ranks are measured: a row of the table of strategies");
DEFINE_int32(ranks, 2, "how many, where no environment says so");
DEFINE_string(model, "moe_gpt", "a row of the table of models");
DEFINE_string(model_options, "", "the model's own options: name=value,name=value");
DEFINE_int64(steps, 2, "steps to train");
DEFINE_int64(samples, 1, "samples of a rank and step");

namespace shardwright::bench {
namespace {

// Bytes, this rank's unless it says otherwise; anonymous memory is above the base.
struct Report {
  uint64_t state = 0;         // parameters and optimizer state
  uint64_t global_state = 0;  // summed over the ranks
  uint64_t largest_unit = 0;
  uint64_t build_peak = 0;
  uint64_t built = 0;
  uint64_t step_peak = 0;
  uint64_t resident = 0;  // after the last step
};

ModelOptions Parse(absl::string_view text) {
  ModelOptions options;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    options.insert(absl::StrSplit(part, absl::MaxSplits('=', 1)));
  }
  return options;
}

absl::StatusOr<std::unique_ptr<Module>> MakeModule(const ModelOptions& options) {
  SW_ASSIGN_OR_RETURN(const ModelFactory factory, BuiltinModels().Find(FLAGS_model));
  return factory.make(options);
}

Batch SomeTokens(int64_t sample_tokens) {
  Batch batch{.samples = FLAGS_samples, .sample_tokens = sample_tokens, .tokens = {}};
  for (int64_t i = 0; i < batch.samples * batch.sample_tokens; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(i * 31 % 251));
  }
  return batch;
}

absl::Status Train(Strategy& strategy, int64_t steps, int64_t sample_tokens) {
  for (int64_t step = 0; step < steps; ++step) {
    SW_RETURN_IF_ERROR(strategy.TrainStep({SomeTokens(sample_tokens)}, step).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const StrategyContext& context) {
  SW_ASSIGN_OR_RETURN(const StrategyFactory make, BuiltinStrategies().Find(FLAGS_strategy));
  return make({.clip_gradient_norm = 1.0}, context);
}

absl::Status WarmUp(const StrategyContext& context) {
  SW_ASSIGN_OR_RETURN(std::unique_ptr<Module> module, MakeModule({{"n_layer", "1"}, {"n_embd", "32"}}));
  SW_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy, MakeStrategy(context));
  const int64_t sample_tokens = module->sample_tokens();
  SW_RETURN_IF_ERROR(strategy->Setup(std::move(module)));
  return Train(*strategy, 1, sample_tokens);
}

uint64_t Above(uint64_t base, uint64_t bytes) {
  return bytes > base ? bytes - base : 0;
}

absl::StatusOr<Report> BuildAndTrain(const StrategyContext& context) {
  SW_ASSIGN_OR_RETURN(std::unique_ptr<Module> module, MakeModule(Parse(FLAGS_model_options)));
  SW_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy, MakeStrategy(context));
  const int64_t sample_tokens = module->sample_tokens();
  const uint64_t base = AnonymousBytes();
  Report report;
  const MemoryPeak building;
  SW_RETURN_IF_ERROR(strategy->Setup(std::move(module)));
  report.build_peak = Above(base, building.AnonymousBytes());
  report.built = Above(base, AnonymousBytes());
  const MemoryPeak stepping;
  SW_RETURN_IF_ERROR(Train(*strategy, FLAGS_steps, sample_tokens));
  report.step_peak = Above(base, stepping.AnonymousBytes());
  report.resident = Above(base, AnonymousBytes());
  report.state = strategy->ResidentBytes();
  return report;
}

absl::StatusOr<Report> Measure(CommGroups& groups, const World& world) {
  const std::unique_ptr<Storage> storage = MakeMemoryStorage();
  MemoryBudget budget;
  const StrategyContext context{.groups = &groups, .storage = storage.get(), .budget = &budget, .world = world};
  SW_RETURN_IF_ERROR(WarmUp(context)) << "warming up";
  SW_ASSIGN_OR_RETURN(Report report, BuildAndTrain(context));
  auto global_state = static_cast<int64_t>(report.state);
  SW_RETURN_IF_ERROR(groups.control->AllReduce(&global_state, 1, DType::kInt64, ReduceOp::kSum));
  report.global_state = static_cast<uint64_t>(global_state);
  // Last, because it leaves its traces in the heap.
  SW_ASSIGN_OR_RETURN(std::unique_ptr<Module> module, MakeModule(Parse(FLAGS_model_options)));
  SW_ASSIGN_OR_RETURN(report.largest_unit, LargestUnitBytes(std::move(module)));
  return report;
}

void Print(const RankEnvironment& environment, const Report& report) {
  const std::string line = absl::StrFormat(
      "{\"strategy\": \"%s\", \"ranks\": %d, \"rank\": %d, \"state\": %u, \"global_state\": %u, \"largest_unit\": %u, "
      "\"build_peak\": %u, \"built\": %u, \"step_peak\": %u, \"resident\": %u}\n",
      FLAGS_strategy, environment.world_size, environment.rank, report.state, report.global_state, report.largest_unit,
      report.build_peak, report.built, report.step_peak, report.resident);
  // At once: lines of several ranks share one stream.
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

absl::Status RunRank(const RankEnvironment& environment) {
  SW_ASSIGN_OR_RETURN(CommGroups groups, ConnectC10d(environment, {}));
  const absl::StatusOr<Report> report =
      Measure(groups, {.size = environment.world_size, .ranks_per_node = environment.local_world_size});
  if (!report.ok()) {
    groups.Abandon(report.status());
    return report.status();
  }
  Print(environment, *report);
  return absl::OkStatus();
}

absl::StatusOr<int> LaunchSelf(std::vector<std::string> argv) {
  SW_ASSIGN_OR_RETURN(const std::unique_ptr<HostedStore> store, HostStore(FLAGS_ranks));
  argv[0] = cli::SelfPath();
  return LaunchRanks(argv, {.ranks = FLAGS_ranks, .store_port = store->port(), .first_failed_rank = [&store] {
                              return store->FirstFailedRank();
                            }});
}

absl::StatusOr<int> Run(const std::vector<std::string>& argv) {
  SW_ASSIGN_OR_RETURN(const RankEnvironment environment, ReadRankEnvironment());
  if (std::getenv("RANK") == nullptr && FLAGS_ranks > 1) return LaunchSelf(argv);
  SW_RETURN_IF_ERROR(RunRank(environment)) << "rank " << environment.rank;
  return 0;
}

int Main(const std::vector<std::string>& argv) {
  const absl::StatusOr<int> exit_status = Run(argv);
  if (exit_status.ok()) return *exit_status;
  std::fprintf(stderr, "strategy_memory: %s\n", exit_status.status().ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace shardwright::bench

int main(int argc, char** argv) {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // as every program of the project does
  const std::vector<std::string> words(argv, argv + argc);
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return shardwright::bench::Main(words);
}
