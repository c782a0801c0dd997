// FENCE: units of a model: sets of parameters that a sharded strategy gathers together.
//
// C++ torch modules have no forward hooks, so in ConfigureShardedModel a model writes
//
//   block_ = units.Wrap<Block>(register_module("block", Block(config)));  // a Unit<Block>; sharded here, at once
//   ...
//   x = block_(x);  // runs the strategy's PreForward and PostForward around Block's forward
//
// A unit's parameters are whole inside its forward and backward only. Its forward takes tensors and returns a tensor or
// a vector of them; it may be run a second time during backward, so it leaves nothing behind in members.
// Parameters outside every unit, and those that several units share, belong to the root and are whole during the whole
// step. Units may be nested; a parameter belongs to the innermost. All ranks call the same units in the same order.
#ifndef SHARDWRIGHT_CORE_MODULE_UNITS_H_
#define SHARDWRIGHT_CORE_MODULE_UNITS_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shardwright/core/module/recompute.h"

namespace shardwright {

// What a strategy does around units. Calls come from the thread that runs forward and backward; they throw as torch
// does (ThrowIfError).
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  // A unit was built; its parameters are whole and initialised. Sharding strategies keep their part and free the rest.
  virtual void OnUnit(int unit, torch::nn::Module& module) {}
  virtual void PreForward(int unit) {}
  // May replace outputs.
  virtual void PostForward(int unit, std::vector<at::Tensor>& outputs) {}
  // True: activations inside units are not kept for backward but computed again there.
  virtual bool RecomputesActivations() const { return false; }
};

// A wrapped module: call it like the holder it wraps. Copyable as holders are.
template <typename Holder>
class Unit {
 public:
  Unit() : holder_(nullptr) {}
  Unit(Holder holder, UnitHooks* hooks, int id) : holder_(std::move(holder)), hooks_(hooks), id_(id) {}

  // What the wrapped forward returns: a tensor or a std::vector of them.
  template <typename... Tensors>
  auto operator()(const Tensors&... inputs) {
    static_assert((std::is_same_v<Tensors, at::Tensor> && ...), "a unit's forward takes tensors");
    using Output = std::decay_t<decltype(holder_->forward(inputs...))>;
    const TensorFunction forward = [unit = *this](const std::vector<at::Tensor>& given) mutable {
      return unit.Forward(given, std::index_sequence_for<Tensors...>());
    };
    const std::vector<at::Tensor> tensors = {inputs...};
    std::vector<at::Tensor> outputs = hooks_->RecomputesActivations() ? Recompute(forward, tensors) : forward(tensors);
    if constexpr (std::is_same_v<Output, at::Tensor>) {
      return at::Tensor(std::move(outputs.front()));
    } else {
      return outputs;
    }
  }
  Holder& holder() { return holder_; }

 private:
  template <size_t... I>
  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs, std::index_sequence<I...>) {
    hooks_->PreForward(id_);
    std::vector<at::Tensor> outputs = {holder_->forward(inputs[I]...)};
    hooks_->PostForward(id_, outputs);
    return outputs;
  }

  Holder holder_;
  UnitHooks* hooks_ = nullptr;  // Not owned.
  int id_ = 0;
};

class Units {
 public:
  // `hooks` outlives every unit.
  explicit Units(UnitHooks& hooks) : hooks_(hooks) {}

  template <typename Holder>
  Unit<Holder> Wrap(Holder holder) {
    const int id = count_++;
    hooks_.OnUnit(id, *holder.ptr());
    return Unit<Holder>(std::move(holder), &hooks_, id);
  }
  int count() const { return count_; }

 private:
  UnitHooks& hooks_;
  int count_ = 0;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_UNITS_H_
