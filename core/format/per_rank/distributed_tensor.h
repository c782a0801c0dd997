// A rank's parts of distributed tensors, as torch pickles them.
#ifndef SHARDWRIGHT_CORE_FORMAT_PER_RANK_DISTRIBUTED_TENSOR_H_
#define SHARDWRIGHT_CORE_FORMAT_PER_RANK_DISTRIBUTED_TENSOR_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/format/pickle/graph.h"
#include "shardwright/core/format/torch/torch_pieces.h"
#include "shardwright/core/manifest/box.h"

namespace shardwright::per_rank {

struct Part {
  Box box;
  torch_format::TorchTensor tensor;
};

struct RankTensor {
  DType dtype = DType::kInvalid;
  Shape shape;              // of the whole
  bool replicated = false;  // every rank has all of it
  std::vector<Part> parts;  // this rank's that are not empty
};

// True if the node makes a DTensor or ShardedTensor.
bool IsDistributed(const pickle::Graph& graph, pickle::NodeId node);

// kUnimplemented for meshes of several dimensions and for placements other than Shard and Replicate.
absl::StatusOr<RankTensor> ParseDistributed(const torch_format::TorchFile& file, pickle::NodeId node);

}  // namespace shardwright::per_rank

#endif  // SHARDWRIGHT_CORE_FORMAT_PER_RANK_DISTRIBUTED_TENSOR_H_
