// Saving and loading of a strategy's state: the part that is the same for all of them, without torch.
#ifndef SHARDWRIGHT_CORE_STRATEGY_STATE_IO_H_
#define SHARDWRIGHT_CORE_STRATEGY_STATE_IO_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/strategy/strategy.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright {

// Collective. Runs the module's OnSaveCheckpoint, plans by `rule` and saves `state` (this rank's boxes).
// The module's extras go under the key "module" of the checkpoint's extras.
absl::StatusOr<SaveReport> SaveState(const StrategyContext& context, const StrategyOptions& options,
                                     absl::string_view strategy_name, int32_t threads, PlacementRule rule, Module& module,
                                     const LocalState& state, const SaveRequest& request);

// What LoadState found before it touched the state; the caller marks its state invalid before `Execute` and valid after.
struct PreparedLoad {
  std::shared_ptr<const Manifest> manifest;
  std::unique_ptr<LoadView> view;
  LoadPlan plan;
  std::vector<std::string> skipped;
};

// Collective. Opens the manifest, runs the hook, compares views, judges strictness over all ranks, plans.
absl::StatusOr<PreparedLoad> PrepareLoad(const StrategyContext& context, const StrategyOptions& options, PlacementRule rule,
                                         Module& module, const LocalState& state, const LoadRequest& request);
// Collective. Moves the bytes.
absl::StatusOr<LoadReport> ExecuteLoad(const StrategyContext& context, const PreparedLoad& prepared,
                                       const LocalState& state, const LoadRequest& request);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_STATE_IO_H_
