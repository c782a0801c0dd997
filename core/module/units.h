// FENCE: units of a model: sets of parameters that a sharded strategy gathers together.
//
// C++ torch modules have no forward hooks, so in ConfigureShardedModel a model writes
//
//   block_ = units.Wrap<Block>(register_module("block", Block(config)));  // a Unit<Block>; sharded here, at once
//   ...
//   x = block_(x);                                                        // runs the strategy's PreForward and
//   PostForward
//
// Parameters outside every unit (and tied ones) belong to the root.
#ifndef SHARDWRIGHT_CORE_MODULE_UNITS_H_
#define SHARDWRIGHT_CORE_MODULE_UNITS_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardwright {

// What a strategy does around units. Replicating strategies do nothing. Calls come from the training thread.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  // A unit was built; its parameters are whole and initialised. Sharding strategies keep their part and free the rest.
  virtual void OnUnit(int unit, torch::nn::Module& module) {}
  virtual void PreForward(int unit) {}
  // Returns the output to go on with.
  virtual at::Tensor PostForward(int unit, at::Tensor output) { return output; }
};

// A wrapped module: call it like the holder it wraps. Copyable as holders are.
template <typename Holder>
class Unit {
 public:
  Unit() : holder_(nullptr) {}
  Unit(Holder holder, UnitHooks* hooks, int id) : holder_(std::move(holder)), hooks_(hooks), id_(id) {}

  // What forward returns: at::Tensor or std::vector<at::Tensor>.
  template <typename... Args>
  auto operator()(Args&&... args) {
    hooks_->PreForward(id_);
    return PostForward(holder_->forward(std::forward<Args>(args)...));
  }
  Holder& holder() { return holder_; }

 private:
  at::Tensor PostForward(at::Tensor output) { return hooks_->PostForward(id_, std::move(output)); }
  std::vector<at::Tensor> PostForward(std::vector<at::Tensor> outputs) {
    for (at::Tensor& output : outputs) output = hooks_->PostForward(id_, std::move(output));
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
