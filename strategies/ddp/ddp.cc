#include "shardwright/strategies/ddp/ddp.h"

#include <memory>
#include <vector>

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/strategy/gradient_buckets.h"
#include "shardwright/core/strategy/replicas.h"
#include "shardwright/core/strategy/torch_strategy.h"

namespace shardwright {
namespace {

class Ddp : public TorchStrategy {
 public:
  Ddp(const StrategyOptions& options, StrategyContext context) : TorchStrategy("ddp", options, context) {}

 protected:
  absl::Status OnBuilt() override {
    std::vector<at::Tensor> trainable;
    for (const HeldTensor& held : this->held()) {
      if (!held.alias_of.empty()) continue;
      SW_RETURN_IF_ERROR(BroadcastFromRank0(data(), held));
      if (held.meta.trainable) trainable.push_back(held.tensor);
    }
    buckets_ = std::make_unique<GradientBuckets>(trainable, options().gradient_bucket_bytes,
                                                 WhenGradientsAreTold(options()), data());
    return absl::OkStatus();
  }

  absl::Status BeginStep() override {
    buckets_->Zero();
    return absl::OkStatus();
  }

  // All but the last micro-batch accumulate in place, without communication.
  void BeforeBackward(bool is_last) override {
    if (is_last) buckets_->Arm();
  }

  absl::Status FinishGradients() override { return buckets_->Finish(); }

  absl::Status EndStep() override { return BroadcastBuffers(data(), held()); }

 private:
  Communicator& data() { return *context().groups->data; }

  std::unique_ptr<GradientBuckets> buckets_;
};

}  // namespace

std::unique_ptr<Strategy> MakeDdp(const StrategyOptions& options, StrategyContext context) {
  return std::make_unique<Ddp>(options, context);
}

}  // namespace shardwright
