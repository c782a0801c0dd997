#include "shardwright/core/strategy/state_io.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/plan/save_plan.h"
#include "shardwright/core/strategy/load_judgement.h"
#include "shardwright/core/strategy/optimizer_record.h"
#include "shardwright/core/tensor/device_tensors.h"
#include "shardwright/core/tensor/source_sink.h"

namespace shardwright {
namespace {

// The checkpoint's extras: the request's, what the hook adds, and the optimizer's record.
absl::StatusOr<Value::Map> MakeExtras(const OwnedState& owned, const SaveRequest& request) {
  Value::Map extras = request.extras;
  for (const absl::string_view key : {kModuleExtras, kOptimizerExtras}) {
    if (extras.count(std::string(key)) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("extras key \"", key, "\" belongs to the strategy"));
    }
  }
  Value::Map module_extras;
  SW_RETURN_IF_ERROR(owned.on_save(module_extras)) << "OnSaveCheckpoint";
  extras[std::string(kModuleExtras)] = std::move(module_extras);
  extras[std::string(kOptimizerExtras)] = RecordOptimizer(owned.optimizer);
  return extras;
}

absl::StatusOr<SavePlan> PlanStateSave(const StrategyContext& context, const StrategyOptions& options,
                                       const OwnedState& owned) {
  std::vector<SaveTensor> tensors;
  for (const LocalTensor& tensor : owned.state) tensors.push_back({.meta = tensor.meta, .alias_of = tensor.alias_of});
  SavePlanOptions plan_options;
  plan_options.layout = options.save_layout;
  return PlanSave(std::move(tensors), owned.rule, context.world, plan_options);
}

// Runs the hook on a fresh view.
absl::StatusOr<std::unique_ptr<LoadView>> OpenView(const StrategyContext& context, const OwnedState& owned,
                                                   const LoadRequest& request) {
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const Manifest> manifest, OpenManifest(*context.storage, request.path));
  auto view = std::make_unique<LoadView>(std::move(manifest));
  SW_RETURN_IF_ERROR(owned.on_load(*view)) << "OnLoadCheckpoint";
  return view;
}

absl::StatusOr<std::vector<std::string>> CheckOptimizer(const OwnedState& owned, const LoadRequest& request,
                                                        const LoadView& view) {
  if (request.weights_only) return std::vector<std::string>();
  const auto found = view.extras().find(std::string(kOptimizerExtras));
  const auto* record = found == view.extras().end() ? nullptr : found->second.get_if<Value::Map>();
  if (record == nullptr) return std::vector<std::string>();
  return CompareOptimizer(*record, owned.optimizer);
}

// Passes everything on and notes the first access that can change the state.
class WatchedSink : public TensorSink {
 public:
  WatchedSink(TensorSink& sink, bool& changed) : sink_(sink), changed_(changed) {}

  absl::Status Write(absl::string_view name, const Box& box, absl::Span<const char> bytes) override {
    changed_ = true;
    return sink_.Write(name, box, bytes);
  }
  absl::Span<char> Direct(absl::string_view name, const Box& box) override {
    changed_ = true;
    return sink_.Direct(name, box);
  }
  absl::Status Finish() override { return sink_.Finish(); }

 private:
  TensorSink& sink_;
  bool& changed_;
};

// What a plan of all ranks may use of a node's memory: what is left beside the buffers of its ranks that stage a GPU's.
uint64_t AllowanceForPlan(const StrategyContext& context) {
  const uint64_t limit = context.budget->limit_bytes();
  if (!context.device.is_cuda()) return limit;
  const auto ranks = static_cast<uint64_t>(std::min(context.world.size, context.world.ranks_per_node));
  return limit - std::min(limit, ranks * 2 * kDeviceWindowBytes);
}

}  // namespace

absl::StatusOr<SaveReport> SaveState(const StrategyContext& context, const StrategyOptions& options,
                                     const OwnedState& owned, const SaveRequest& request) {
  absl::StatusOr<Value::Map> extras = MakeExtras(owned, request);
  const absl::StatusOr<std::unique_ptr<TensorSource>> source = MakeTensorSource(owned.state, *context.budget);
  const absl::Status ready = extras.ok() ? source.status() : extras.status();
  SW_RETURN_IF_ERROR(AgreeOnStatus(*context.groups->control, ready)) << "saving " << request.path;
  SW_ASSIGN_OR_RETURN(const SavePlan plan, PlanStateSave(context, options, owned), _ << "saving " << request.path);
  SaveContent content;
  content.progress = request.progress;
  content.topology = {.world_size = context.world.size,
                      .ranks_per_node = context.world.ranks_per_node,
                      .strategy = std::string(owned.strategy),
                      .threads_per_rank = owned.threads};
  content.load_order = options.load_order;
  content.extras = *std::move(extras);
  content.rank_extras = request.rank_extras;
  return SaveCheckpoint(*context.storage, request.path, plan, **source, content, *context.budget,
                        *context.groups->checkpoint);
}

absl::StatusOr<PreparedLoad> PrepareLoad(const StrategyContext& context, const StrategyOptions& options,
                                         const OwnedState& owned, const LoadRequest& request) {
  Communicator& control = *context.groups->control;
  const std::string where = absl::StrCat("loading ", request.path);
  absl::StatusOr<std::unique_ptr<LoadView>> view = OpenView(context, owned, request);
  SW_RETURN_IF_ERROR(AgreeOnStatus(control, view.status())) << where;
  SW_RETURN_IF_ERROR(CompareViews(control, **view)) << where;
  absl::StatusOr<std::vector<std::string>> notes = CheckOptimizer(owned, request, **view);
  SW_RETURN_IF_ERROR(AgreeOnStatus(control, notes.status())) << where;

  MatchOptions match;
  match.strict = request.strict;
  match.load_optimizer = !request.weights_only;
  SW_ASSIGN_OR_RETURN(LoadJudgement judgement, JudgeLoad(control, **view, owned.state, match), _ << where);
  if (request.strict) {
    SW_RETURN_IF_ERROR(ProblemsToStatus(judgement.problems)) << where;
  }

  absl::StatusOr<LoadPlan> plan = PlanLoad((*view)->shared_manifest(), std::move(judgement.tensors), owned.rule,
                                           context.world, options.load_order, AllowanceForPlan(context));
  SW_RETURN_IF_ERROR(AgreeOnStatus(control, plan.status())) << where;
  return PreparedLoad{.view = *std::move(view),
                      .plan = *std::move(plan),
                      .skipped = std::move(judgement.problems),
                      .notes = *std::move(notes)};
}

absl::StatusOr<LoadReport> ExecuteLoad(const StrategyContext& context, const PreparedLoad& prepared,
                                       const LocalState& state, const LoadRequest& request, bool& changed) {
  const absl::StatusOr<std::unique_ptr<TensorSink>> sink = MakeTensorSink(state, *context.budget);
  if (context.device.is_cuda()) {  // memory of the host is there
    SW_RETURN_IF_ERROR(AgreeOnStatus(*context.groups->control, sink.status())) << "loading " << request.path;
  }
  WatchedSink watched(**sink, changed);
  return LoadCheckpoint(*context.storage, request.path, prepared.plan, watched, request.io, *context.budget,
                        *context.groups->checkpoint);
}

}  // namespace shardwright
