#include "shardwright/strategies/zero3/unit_shards.h"

#include <utility>

#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/torch_module.h"
#include "shardwright/core/plan/placement.h"
#include "shardwright/core/strategy/shard_group.h"

namespace shardwright {

Box UnitShards::BoxOf(const TensorMeta& meta) const {
  return RowShardBox(meta, rank_, world_size_);
}

void UnitShards::AddUnit(int unit, torch::nn::Module& module) {
  unit_roots_[&module] = unit;
  Shard(module);
}

void UnitShards::AddRoot(torch::nn::Module& model) {
  Shard(model);
  Place(model, kRoot);
}

void UnitShards::Shard(torch::nn::Module& module) {
  for (const NamedTorchTensor& named : NamedTensors(module)) {
    if (named.meta.role != Role::kParameter) continue;
    const auto [entry, is_new] = entries_.try_emplace(named.tensor.unsafeGetTensorImpl());
    if (!is_new) continue;
    ThrowIfError(Annotate(CheckShardable(named.tensor), named.meta.name));
    entry->second.shard = RowsOfTensor(named.tensor, BoxOf(named.meta))
                              .to(at::TensorOptions(device_), /*non_blocking=*/false, /*copy=*/true);
    named.tensor.set_data(WithoutMemory(named.tensor.sizes(), entry->second.shard.options()));
  }
}

void UnitShards::Place(const torch::nn::Module& module, int unit) {
  if (const auto found = unit_roots_.find(&module); found != unit_roots_.end()) unit = found->second;
  for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) {
    Entry& entry = entries_.at(parameter.unsafeGetTensorImpl());
    entry.unit = std::exchange(entry.placed, true) && entry.unit != unit ? kRoot : unit;
  }
  for (const auto& child : module.children()) Place(*child, unit);
}

const UnitShards::Entry& UnitShards::Find(const at::Tensor& parameter) const {
  const auto found = entries_.find(parameter.unsafeGetTensorImpl());
  SW_CHECK(found != entries_.end());
  return found->second;
}

at::Tensor UnitShards::ShardOf(const at::Tensor& parameter) const {
  return Find(parameter).shard;
}

int UnitShards::UnitOf(const at::Tensor& parameter) const {
  return Find(parameter).unit;
}

}  // namespace shardwright
