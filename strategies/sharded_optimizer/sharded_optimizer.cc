#include "shardwright/strategies/sharded_optimizer/sharded_optimizer.h"

#include <utility>
#include <vector>

#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/strategy/gradient_watch.h"
#include "shardwright/core/strategy/replicas.h"
#include "shardwright/core/strategy/sharded_strategy.h"

namespace shardwright {
namespace {

enum class ReduceWhen { kLastMicroBatch, kEveryMicroBatch };

class ShardedOptimizer : public ShardedStrategy {
 public:
  ShardedOptimizer(absl::string_view name, ReduceWhen when, const StrategyOptions& options, StrategyContext context)
      : ShardedStrategy(name, options, context), when_(when) {}

 protected:
  std::vector<SteppedParameter> Stepped() override {
    std::vector<SteppedParameter> stepped;
    for (const HeldTensor& held : this->held()) {
      if (!held.meta.trainable || !held.alias_of.empty()) continue;
      trainable_.push_back(
          {.meta = held.meta, .full = held.tensor, .shard = RowsOfTensor(held.tensor, RowsOf(held.meta))});
      stepped.push_back({.meta = held.meta, .box = RowsOf(held.meta), .tensor = trainable_.back().shard});
    }
    return stepped;
  }

  absl::Status OnBuilt() override {
    for (const HeldTensor& held : this->held()) {
      if (!held.alias_of.empty()) continue;
      SW_RETURN_IF_ERROR(BroadcastFromRank0(data(), held));
    }
    std::vector<at::Tensor> parameters;
    for (const ShardedParameter& parameter : trainable_) parameters.push_back(parameter.full);
    std::vector<std::vector<at::Tensor>> watched;
    for (const std::vector<size_t>& bucket : GroupInReverse(parameters, options().gradient_bucket_bytes)) {
      std::vector<ShardedParameter> members;
      watched.emplace_back();
      for (const size_t i : bucket) {
        members.push_back(trainable_[i]);
        watched.back().push_back(trainable_[i].full);
      }
      AddGroups(members);
    }
    SW_CHECK(groups().size() == watched.size());
    watch_ = std::make_unique<GradientWatch>(watched, WhenGradientsAreTold(options()),
                                             [this](size_t bucket) { ThrowIfError(Reduce(*groups()[bucket])); });
    return absl::OkStatus();
  }

  absl::Status BeginStep() override {
    watch_->Begin();
    return ShardedStrategy::BeginStep();
  }

  void BeforeBackward(bool is_last) override {
    if (!is_last && when_ == ReduceWhen::kLastMicroBatch) return;
    watch_->Begin();
    watch_->Arm();
  }

  absl::Status EndPass() override {
    if (!watch_->armed()) return absl::OkStatus();
    watch_->Finish();
    if (watch_->grew_late()) {
      return absl::InternalError("a parameter's gradient was accumulated twice in one backward");
    }
    return FinishReductions();
  }

  absl::Status EndStep() override {
    SW_RETURN_IF_ERROR(ShardedStrategy::EndStep());
    return GatherUpdated();
  }

  void GiveUp() override {
    watch_->Begin();
    ShardedStrategy::GiveUp();
  }

 private:
  // Each rank sends the rows that it has stepped; the next bucket's are on their way while one's are copied.
  absl::Status GatherUpdated() {
    ShardGroup* before = nullptr;
    for (const std::unique_ptr<ShardGroup>& group : groups()) {
      group->Invalidate();
      SW_RETURN_IF_ERROR(group->StartGather());
      SW_RETURN_IF_ERROR(before == nullptr ? absl::OkStatus() : before->FinishGather());
      before = group.get();
    }
    return before == nullptr ? absl::OkStatus() : before->FinishGather();
  }

  const ReduceWhen when_;
  std::vector<ShardedParameter> trainable_;
  std::unique_ptr<GradientWatch> watch_;
};

}  // namespace

std::unique_ptr<Strategy> MakeZero1(const StrategyOptions& options, StrategyContext context) {
  return std::make_unique<ShardedOptimizer>("zero1", ReduceWhen::kLastMicroBatch, options, context);
}

std::unique_ptr<Strategy> MakeZero2(const StrategyOptions& options, StrategyContext context) {
  return std::make_unique<ShardedOptimizer>("zero2", ReduceWhen::kEveryMicroBatch, options, context);
}

}  // namespace shardwright
