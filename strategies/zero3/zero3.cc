#include "shardwright/strategies/zero3/zero3.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/tensor_memory.h"
#include "shardwright/core/module/torch_device.h"
#include "shardwright/core/module/torch_module.h"
#include "shardwright/core/strategy/replicas.h"
#include "shardwright/core/strategy/sharded_strategy.h"
#include "shardwright/strategies/zero3/unit_order.h"
#include "shardwright/strategies/zero3/unit_shards.h"

namespace shardwright {
namespace {

// Where parameters are whole:
//
//   root    [============ forward ============|=========== backward ===========]
//   unit 0     [==]                                                 [==] reduce
//   unit 1         [==]                                         [==] reduce
//   unit 2             [==]                    (kept) [==] reduce
//
// Each gather but the first is started while the unit before it computes. Backward opens a unit when the gradient of
// its output is there, and closes it (reduces its gradients, frees its parameters) when it opens another one: the
// engine runs what was recorded later first, so all of a unit's backward has run by then.
class Zero3 : public ShardedStrategy, private UnitHooks {
 public:
  Zero3(const StrategyOptions& options, StrategyContext context)
      : ShardedStrategy("zero3", options, context),
        shards_(context.groups->rank(), context.groups->size(), ToTorchDevice(context.device)) {}

 protected:
  UnitHooks& unit_hooks() override { return *this; }
  std::vector<HeldTensor> Hold(TorchModule& module) override;
  absl::Status OnBuilt() override { return BroadcastBuffers(data(), held()); }

  absl::Status BeginPass() override;
  void BeforeBackward(bool is_last) override { in_backward_ = true; }
  absl::Status EndPass() override;
  PooledTensorMemory::Afterwards after_step() const override { return PooledTensorMemory::Afterwards::kReturn; }
  void GiveUp() override;

 private:
  using Unit = std::vector<ShardGroup*>;

  // UnitHooks.
  void OnUnit(int unit, torch::nn::Module& module) override { shards_.AddUnit(unit, module); }
  void PreForward(int unit) override;
  void PostForward(int unit, std::vector<at::Tensor>& outputs) override;
  bool RecomputesActivations() const override { return options().recompute_activations; }

  HeldTensor HoldShard(const NamedTorchTensor& named) const;
  void MakeUnits(const std::vector<NamedTorchTensor>& tensors);
  // The dtype of whole parameters becomes the one that is computed in.
  void SetComputeDType(const at::Tensor& parameter) const;

  absl::Status StartGather(std::optional<int> unit);
  absl::Status Gather(int unit);
  void Free(int unit);
  void FreeAll();
  // Backward reaches a unit.
  absl::Status Open(int unit);
  absl::Status Close(int unit);

  UnitShards shards_;
  std::map<int, Unit> units_;  // by number, UnitShards::kRoot included
  UnitOrder order_;
  std::vector<int> calls_;                // units in whose forward we are, outermost first
  std::map<int, std::set<int>> callers_;  // of each unit: those that called it in their forward
  std::vector<int> open_;                 // units whose backward is running, in order of opening
  bool in_backward_ = false;
};

std::vector<HeldTensor> Zero3::Hold(TorchModule& module) {
  shards_.AddRoot(module);
  MoveToDevice(module, context().device);  // buffers
  const std::vector<NamedTorchTensor> tensors = NamedTensors(module);
  std::vector<HeldTensor> held;
  for (const NamedTorchTensor& named : tensors) {
    const bool sharded = named.meta.role == Role::kParameter;
    held.push_back(sharded ? HoldShard(named)
                           : HeldTensor{.meta = named.meta,
                                        .box = Box::Whole(named.meta.shape),
                                        .tensor = named.tensor,
                                        .alias_of = named.alias_of});
  }
  MakeUnits(tensors);
  return held;
}

HeldTensor Zero3::HoldShard(const NamedTorchTensor& named) const {
  return {.meta = named.meta,
          .box = shards_.BoxOf(named.meta),
          .tensor = shards_.ShardOf(named.tensor),
          .alias_of = named.alias_of};
}

void Zero3::MakeUnits(const std::vector<NamedTorchTensor>& tensors) {
  std::map<int, std::vector<ShardedParameter>> members;
  for (const NamedTorchTensor& named : tensors) {
    if (named.meta.role != Role::kParameter || !named.alias_of.empty()) continue;
    SetComputeDType(named.tensor);
    members[shards_.UnitOf(named.tensor)].push_back(
        {.meta = named.meta, .full = named.tensor, .shard = shards_.ShardOf(named.tensor)});
  }
  units_[UnitShards::kRoot] = {};
  for (const auto& [unit, parameters] : members) units_[unit] = AddGroups(parameters);
}

void Zero3::SetComputeDType(const at::Tensor& parameter) const {
  if (options().compute_dtype == DType::kFloat32 || parameter.scalar_type() != at::kFloat) return;
  parameter.set_data(WithoutMemory(
      parameter.sizes(), parameter.options().dtype(ToScalarType(options().compute_dtype)).requires_grad(false)));
}

absl::Status Zero3::StartGather(std::optional<int> unit) {
  if (!unit.has_value()) return absl::OkStatus();
  for (ShardGroup* group : units_[*unit]) SW_RETURN_IF_ERROR(group->StartGather());
  return absl::OkStatus();
}

absl::Status Zero3::Gather(int unit) {
  SW_RETURN_IF_ERROR(StartGather(unit));
  for (ShardGroup* group : units_[unit]) SW_RETURN_IF_ERROR(group->FinishGather());
  return absl::OkStatus();
}

void Zero3::Free(int unit) {
  for (ShardGroup* group : units_[unit]) group->Free();
}

void Zero3::FreeAll() {
  for (const auto& [unit, groups] : units_) Free(unit);
  calls_.clear();
  open_.clear();
  in_backward_ = false;
}

absl::Status Zero3::BeginPass() {
  const std::optional<int> first = order_.Begin();
  SW_RETURN_IF_ERROR(StartGather(UnitShards::kRoot));
  SW_RETURN_IF_ERROR(StartGather(first));
  return Gather(UnitShards::kRoot);
}

void Zero3::PreForward(int unit) {
  callers_[unit].insert(calls_.begin(), calls_.end());
  if (in_backward_) {  // to compute activations again
    ThrowIfError(Open(unit));
  } else {
    const std::optional<int> next = order_.Forward(unit);
    ThrowIfError(Gather(unit));
    ThrowIfError(StartGather(next));
  }
  calls_.push_back(unit);
}

void Zero3::PostForward(int unit, std::vector<at::Tensor>& outputs) {
  SW_CHECK(!calls_.empty() && calls_.back() == unit);
  calls_.pop_back();
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    output.register_hook([this, unit](const at::Tensor&) { ThrowIfError(Open(unit)); });
  }
  // Backward begins with the last unit: it is kept.
  const bool keep = in_backward_ || (c10::GradMode::is_enabled() && order_.is_last());
  if (!keep) Free(unit);
}

absl::Status Zero3::Open(int unit) {
  for (const int open : std::vector<int>(open_)) {
    if (open == unit || callers_[unit].count(open) > 0) continue;
    SW_RETURN_IF_ERROR(Close(open));
  }
  if (std::find(open_.begin(), open_.end(), unit) != open_.end()) return absl::OkStatus();
  const std::optional<int> next = order_.Backward(unit);
  SW_RETURN_IF_ERROR(Gather(unit));
  open_.push_back(unit);
  return StartGather(next);
}

absl::Status Zero3::Close(int unit) {
  open_.erase(std::remove(open_.begin(), open_.end(), unit), open_.end());
  for (ShardGroup* group : units_[unit]) {
    if (!group->trainable()) continue;
    SW_RETURN_IF_ERROR(Reduce(*group));
  }
  Free(unit);
  return absl::OkStatus();
}

absl::Status Zero3::EndPass() {
  if (in_backward_) {
    for (const int open : std::vector<int>(open_)) SW_RETURN_IF_ERROR(Close(open));
    SW_RETURN_IF_ERROR(Close(UnitShards::kRoot));
    SW_RETURN_IF_ERROR(FinishReductions());
  }
  FreeAll();
  return absl::OkStatus();
}

void Zero3::GiveUp() {
  FreeAll();
  ShardedStrategy::GiveUp();
}

}  // namespace

std::unique_ptr<Strategy> MakeZero3(const StrategyOptions& options, StrategyContext context) {
  return std::make_unique<Zero3>(options, context);
}

}  // namespace shardwright
