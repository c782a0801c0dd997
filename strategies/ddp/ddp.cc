#include "shardwright/strategies/ddp/ddp.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/strategy/gradient_buckets.h"
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
      SW_RETURN_IF_ERROR(BroadcastFromRank0(held));
      if (held.meta.trainable) trainable.push_back(held.tensor);
    }
    buckets_ = std::make_unique<GradientBuckets>(trainable, options().gradient_bucket_bytes, data());
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

  // Buffers that forward updates (running statistics) saw each rank's own samples: all go on with rank 0's, so that
  // replicas are equal whenever they are saved.
  absl::Status EndStep() override {
    for (const HeldTensor& held : this->held()) {
      if (held.meta.role != Role::kBuffer || !held.alias_of.empty()) continue;
      SW_RETURN_IF_ERROR(BroadcastFromRank0(held));
    }
    return absl::OkStatus();
  }

 private:
  Communicator& data() { return *context().groups->data; }

  // As bytes, so that every dtype can be sent.
  absl::Status BroadcastFromRank0(const HeldTensor& held) {
    if (held.box.empty()) return absl::OkStatus();
    const absl::Status sent = data().Broadcast(held.tensor.mutable_data_ptr(),
                                               static_cast<int64_t>(held.tensor.nbytes()), DType::kUInt8, /*root=*/0);
    return Annotate(sent, absl::StrCat("sending \"", held.meta.name, "\" from rank 0"));
  }

  std::unique_ptr<GradientBuckets> buckets_;
};

}  // namespace

std::unique_ptr<Strategy> MakeDdp(const StrategyOptions& options, StrategyContext context) {
  return std::make_unique<Ddp>(options, context);
}

}  // namespace shardwright
