#include "shardwright/core/strategy/sharded_strategy.h"

#include <utility>

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/plan/placement.h"
#include "shardwright/core/strategy/replicas.h"

namespace shardwright {

Box ShardedStrategy::RowsOf(const TensorMeta& meta) const {
  return RowShardBox(meta, context().groups->rank(), context().groups->size());
}

std::vector<ShardGroup*> ShardedStrategy::AddGroups(const std::vector<ShardedParameter>& parameters) {
  std::vector<ShardGroup*> added;
  for (std::unique_ptr<ShardGroup>& group : MakeShardGroups(parameters, data())) {
    added.push_back(group.get());
    groups_.push_back(std::move(group));
  }
  return added;
}

absl::Status ShardedStrategy::BeginStep() {
  for (const std::unique_ptr<ShardGroup>& group : groups_) {
    if (group->trainable()) group->ZeroGradients();
  }
  return absl::OkStatus();
}

absl::Status ShardedStrategy::Reduce(ShardGroup& group) {
  SW_RETURN_IF_ERROR(FinishReductions());
  SW_RETURN_IF_ERROR(group.StartReduce());
  reducing_ = &group;
  return absl::OkStatus();
}

absl::Status ShardedStrategy::FinishReductions() {
  ShardGroup* group = std::exchange(reducing_, nullptr);
  return group == nullptr ? absl::OkStatus() : group->FinishReduce();
}

absl::Status ShardedStrategy::FinishGradients() {
  for (const std::unique_ptr<ShardGroup>& group : groups_) {
    if (group->trainable()) group->MeanGradients();
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ShardedStrategy::SumOverShards(double local) {
  SW_RETURN_IF_ERROR(context().groups->control->AllReduce(&local, 1, DType::kFloat64, ReduceOp::kSum));
  return local;
}

bool ShardedStrategy::CountsInNorm(const SteppedParameter& parameter) const {
  const CommGroups& groups = *context().groups;
  return groups.rank() == 0 || parameter.box != RowShardBox(parameter.meta, /*rank=*/0, groups.size());
}

absl::Status ShardedStrategy::EndStep() {
  for (const std::unique_ptr<ShardGroup>& group : groups_) group->DropGradients();
  return BroadcastBuffers(data(), held());
}

void ShardedStrategy::GiveUp() {
  reducing_ = nullptr;
  for (const std::unique_ptr<ShardGroup>& group : groups_) group->DropGradients();
}

}  // namespace shardwright
