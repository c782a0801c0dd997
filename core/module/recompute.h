// FENCE (the .cc): activation checkpointing: what a function computed on the way to its outputs is not kept for
// backward but computed again there, from its inputs.
#ifndef SHARDWRIGHT_CORE_MODULE_RECOMPUTE_H_
#define SHARDWRIGHT_CORE_MODULE_RECOMPUTE_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace shardwright {

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// fn(inputs), to be differentiated with respect to the inputs and to every parameter that fn uses. Backward runs fn
// again under the same autocast mode and random state, then goes on after them. fn is kept until the graph is released.
// Without gradients wanted it is a plain call.
std::vector<at::Tensor> Recompute(const TensorFunction& fn, const std::vector<at::Tensor>& inputs);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_RECOMPUTE_H_
