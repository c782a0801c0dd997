// FENCE: what strategies share whose gradients and optimizer state are spread over the ranks by rows: groups of sharded
// parameters, their reductions one behind the other, and sums over the ranks in which every element counts once.
#ifndef SHARDWRIGHT_CORE_STRATEGY_SHARDED_STRATEGY_H_
#define SHARDWRIGHT_CORE_STRATEGY_SHARDED_STRATEGY_H_

#include <memory>
#include <vector>

#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/strategy/shard_group.h"
#include "shardwright/core/strategy/torch_strategy.h"

namespace shardwright {

class ShardedStrategy : public TorchStrategy {
 protected:
  using TorchStrategy::TorchStrategy;

  absl::Status BeginStep() override;
  absl::Status FinishGradients() override;
  absl::StatusOr<double> SumOverShards(double local) final;
  // Scalars, and whatever else stands on several ranks, count on rank 0.
  bool CountsInNorm(const SteppedParameter& parameter) const final;
  absl::Status EndStep() override;
  void GiveUp() override;

  // This rank's rows.
  Box RowsOf(const TensorMeta& meta) const;
  // The groups live as long as this.
  std::vector<ShardGroup*> AddGroups(const std::vector<ShardedParameter>& parameters);
  const std::vector<std::unique_ptr<ShardGroup>>& groups() const { return groups_; }

  // Collective. Starts the reduction of a group of trainable parameters, whose gradients are complete, once the one
  // before has ended: it runs while backward goes on, and memory is bounded.
  absl::Status Reduce(ShardGroup& group);
  // Collective. Ends the last one.
  absl::Status FinishReductions();

  Communicator& data() const { return *context().groups->data; }

 private:
  std::vector<std::unique_ptr<ShardGroup>> groups_;
  ShardGroup* reducing_ = nullptr;  // Not owned.
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_SHARDED_STRATEGY_H_
