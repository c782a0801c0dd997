#include "stop_below.h"

#include <memory>

#include "absl/strings/str_cat.h"

namespace trainer {
namespace {

class StopBelowCallback : public shardwright::Callback {
 public:
  explicit StopBelowCallback(double loss) : loss_(loss) {}

  absl::string_view name() const override { return "stop_below"; }

  shardwright::Action OnStepEnd(const shardwright::TrainState& state) override {
    if (state.loss >= loss_) return {};
    return {.save = true, .links = {"good"}, .stop = true, .stop_reason = absl::StrCat("loss is below ", loss_)};
  }

 private:
  double loss_;
};

}  // namespace

shardwright::CallbackFactory StopBelow(double loss) {
  return [loss](const shardwright::CallbackOptions&) { return std::make_unique<StopBelowCallback>(loss); };
}

}  // namespace trainer
