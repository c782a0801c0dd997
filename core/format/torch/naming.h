// What the tensors of a saved object are: weights, buffers, an optimizer's state, or other state of the run.
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_NAMING_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_NAMING_H_

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardwright/core/format/pickle/graph.h"
#include "shardwright/core/format/torch/object_walk.h"
#include "shardwright/core/manifest/tensor_meta.h"

namespace shardwright::torch_format {

// Tells whether a tensor is one of the model's, and if so its true name; nullopt: it is not.
using WeightName = std::function<std::optional<std::string>(const FoundTensor&)>;

struct WeightRules {
  WeightName name;
  std::set<std::string> buffers;  // true names of weights that the writer says are buffers
};

// Names every found tensor. State of torch's optimizers, which number parameters, gets their names where numbers,
// counts and shapes agree with the weights in order; else the number stands for the name, and `unmapped` counts it. A
// state dict does not tell buffers from parameters: integers, booleans and running statistics are taken for buffers.
// Names may repeat.
std::vector<TensorMeta> NameTensors(const pickle::Graph& graph, const TensorsByNode& tensors,
                                    const std::vector<FoundTensor>& found, const WeightRules& rules, int* unmapped);

// The rule for objects of no known writer: the tensors of dicts that hold nothing but tensors and of module objects are
// weights; if there is no such dict, all tensors are.
WeightName GenericWeights(const pickle::Graph& graph, const TensorsByNode& tensors,
                          const std::vector<FoundTensor>& found);

// kBuffer for what a state dict holds that is hardly a parameter, else kParameter.
Role GuessRole(absl::string_view name, DType dtype);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_NAMING_H_
