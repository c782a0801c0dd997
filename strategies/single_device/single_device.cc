#include "shardwright/strategies/single_device/single_device.h"

#include "absl/strings/str_cat.h"
#include "shardwright/core/strategy/torch_strategy.h"

namespace shardwright {
namespace {

class SingleDevice : public TorchStrategy {
 public:
  SingleDevice(const StrategyOptions& options, StrategyContext context)
      : TorchStrategy("single_device", options, context) {}

 protected:
  absl::Status CheckWorld() override {
    if (context().world.size == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("strategy single_device runs in 1 process, got ",
                                                   context().world.size, ": choose ddp or zero3, or one process"));
  }

  // Undefined gradients let backward keep what it computed instead of adding it to zeros.
  absl::Status BeginStep() override {
    for (const HeldTensor& held : this->held()) {
      if (held.meta.trainable) held.tensor.mutable_grad().reset();
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeSingleDevice(const StrategyOptions& options, StrategyContext context) {
  return std::make_unique<SingleDevice>(options, context);
}

}  // namespace shardwright
