// Finds the tensors of a saved object, by the path of keys, indices and attributes that lead to them.
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_OBJECT_WALK_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_OBJECT_WALK_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "shardwright/core/format/pickle/graph.h"
#include "shardwright/core/format/torch/torch_file.h"
#include "shardwright/core/format/torch/torch_tensor.h"

namespace shardwright::torch_format {

// All tensors of a file's graph, by node.
using TensorsByNode = absl::flat_hash_map<pickle::NodeId, TorchTensor>;

// kDataLoss and kUnimplemented as AsTensor, for the first node that has them.
absl::StatusOr<TensorsByNode> FindTensors(const TorchFile& file);

struct FoundTensor {
  std::vector<std::string> path;  // {"optimizer", "state", "0", "exp_avg"}
  pickle::NodeId node = pickle::kNoNode;
  pickle::NodeId parent = pickle::kNoNode;  // the dict, list or object that holds it
  bool in_module = false;                   // a parameter or buffer of a saved module object
  friend bool operator==(const FoundTensor&, const FoundTensor&) = default;
};

// A tensor that several paths lead to is found on each of them; cycles are followed once. The parts of a module object
// are named as its state_dict() names them. kDataLoss if there are more paths, or longer ones, than any real object
// has.
absl::StatusOr<std::vector<FoundTensor>> WalkTensors(const pickle::Graph& graph, pickle::NodeId root,
                                                     const TensorsByNode& tensors);

// A dict key as text: strings as they are, others as Python shows them.
std::string KeyText(const pickle::Graph& graph, pickle::NodeId key);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_OBJECT_WALK_H_
