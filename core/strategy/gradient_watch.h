// FENCE: tells when the gradients of groups of parameters are complete, while backward is still running.
//
// Groups are told of strictly in their order, so that what the ranks then do together matches even where they use
// different parameters. Backward reaches parameters about in reverse order of registration: order groups like that.
#ifndef SHARDWRIGHT_CORE_STRATEGY_GRADIENT_WATCH_H_
#define SHARDWRIGHT_CORE_STRATEGY_GRADIENT_WATCH_H_

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "shardwright/core/strategy/strategy.h"

namespace torch::autograd {
struct Node;
}

namespace shardwright {

// Groups of at most `group_bytes`, or one larger parameter; each of one dtype. As indices into `parameters`, which are
// in order of registration; groups and their members are in reverse order.
std::vector<std::vector<size_t>> GroupInReverse(const std::vector<at::Tensor>& parameters, uint64_t group_bytes);

// Not movable: hooks of the parameters point here. Outlives every backward over its parameters, and is called from the
// thread that runs it.
//
//   watch.Begin();
//   watch.Arm(); loss.backward();   // on_complete(0), on_complete(1), ... as they are ready
//   watch.Finish();                 // the rest: groups with parameters that this backward did not reach
class GradientWatch {
 public:
  using OnComplete = std::function<void(size_t group)>;
  // Where activations are recomputed, a parameter that is used in several places gets its gradient in several parts,
  // and only the end of backward tells that it is complete.
  enum class Tells { kInBackward, kAtFinish };
  // Parameters require gradients, are leaves, and stand in one group each.
  GradientWatch(const std::vector<std::vector<at::Tensor>>& groups, Tells tells, OnComplete on_complete);
  GradientWatch(const GradientWatch&) = delete;
  GradientWatch& operator=(const GradientWatch&) = delete;

  // Nothing is complete, nothing is watched.
  void Begin();
  // Before a backward: the next accumulation of each parameter completes its gradient.
  void Arm() { armed_ = true; }
  bool armed() const { return armed_; }
  void Finish();

  // Groups that were complete before the last Finish.
  size_t completed_in_backward() const { return completed_in_backward_; }
  // A parameter's gradient grew after it was taken for complete: its group was told of too early.
  bool grew_late() const { return grew_late_; }

 private:
  class Hook;
  struct Group {
    int64_t parameters = 0;
    int64_t incomplete = 0;
  };
  struct Parameter {
    size_t group = 0;
    bool complete = false;
  };

  void OnAccumulated(size_t parameter);
  void TellComplete();

  const Tells tells_;
  const OnComplete on_complete_;
  std::vector<Group> groups_;
  std::vector<Parameter> parameters_;
  // Parameters hold these weakly: kept alive for their hooks.
  std::vector<c10::intrusive_ptr<torch::autograd::Node>> accumulators_;
  bool armed_ = false;
  bool grew_late_ = false;
  size_t next_group_ = 0;  // the first that was not told of
  size_t completed_in_backward_ = 0;
};

inline GradientWatch::Tells WhenGradientsAreTold(const StrategyOptions& options) {
  return options.recompute_activations ? GradientWatch::Tells::kAtFinish : GradientWatch::Tells::kInBackward;
}

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_GRADIENT_WATCH_H_
