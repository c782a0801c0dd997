// Saving and loading of a strategy's state: the part that is the same for all of them, without torch.
//
//   save:  hook -> extras -> PlanSave -> SaveCheckpoint
//   load:  open -> hook -> views equal on all ranks? -> optimizer of the same kind? -> strictness over all ranks ->
//   PlanLoad
//          -> [nothing has changed up to here] -> LoadCheckpoint
//
// A rank that fails in between says so to the others before the next collective, so that no rank waits for it.
#ifndef SHARDWRIGHT_CORE_STRATEGY_STATE_IO_H_
#define SHARDWRIGHT_CORE_STRATEGY_STATE_IO_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/module/optimizer_spec.h"
#include "shardwright/core/plan/load_plan.h"
#include "shardwright/core/plan/load_view.h"
#include "shardwright/core/plan/placement.h"
#include "shardwright/core/strategy/strategy.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright {

// Keys of a checkpoint's extras that belong to the strategy; a SaveRequest may not use them.
inline constexpr absl::string_view kModuleExtras = "module";        // what OnSaveCheckpoint put in
inline constexpr absl::string_view kOptimizerExtras = "optimizer";  // RecordOptimizer

// What a strategy brings along. Borrowed for the call.
struct OwnedState {
  absl::string_view strategy;
  PlacementRule rule = nullptr;
  int32_t threads = 0;  // of tensor arithmetic
  // The module's hooks, made safe against exceptions. Each is called exactly once a save or load.
  std::function<absl::Status(Value::Map& extras)> on_save;
  std::function<absl::Status(LoadView& view)> on_load;
  const OptimizerSpec& optimizer;
  const LocalState& state;  // this rank's boxes, tensors in the same order on every rank
};

// Collective. kInvalidArgument if the request's extras use a reserved key; else as SaveCheckpoint.
absl::StatusOr<SaveReport> SaveState(const StrategyContext& context, const StrategyOptions& options,
                                     const OwnedState& owned, const SaveRequest& request);

// What was found before the state is touched.
struct PreparedLoad {
  std::unique_ptr<LoadView> view;  // keeps the manifest
  LoadPlan plan;
  std::vector<std::string> skipped;  // lenient: what stays as it is
  std::vector<std::string> notes;    // changed hyperparameters
};

// Collective. kInvalidArgument, equal on every rank, lists every strictness problem of every rank.
absl::StatusOr<PreparedLoad> PrepareLoad(const StrategyContext& context, const StrategyOptions& options,
                                         const OwnedState& owned, const LoadRequest& request);

// Collective. Moves the bytes. `changed` is set as soon as a byte of the state may have changed: if the load fails
// then, the state is neither the old one nor the new.
absl::StatusOr<LoadReport> ExecuteLoad(const StrategyContext& context, const PreparedLoad& prepared,
                                       const LocalState& state, const LoadRequest& request, bool& changed);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_STATE_IO_H_
