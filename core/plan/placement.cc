#include "shardwright/core/plan/placement.h"

namespace shardwright {
namespace {

// n * rank / world without the overflow of the product.
int64_t RowBegin(int64_t rows, int64_t rank, int64_t world_size) {
  return rows / world_size * rank + rows % world_size * rank / world_size;
}

Box OptimizerRowsBox(const TensorMeta& tensor, int32_t rank, int32_t world_size) {
  return tensor.role == Role::kOptimizer ? RowShardBox(tensor, rank, world_size)
                                         : ReplicatedBox(tensor, rank, world_size);
}

Box AllButBuffersRowsBox(const TensorMeta& tensor, int32_t rank, int32_t world_size) {
  return tensor.role == Role::kBuffer ? ReplicatedBox(tensor, rank, world_size) : RowShardBox(tensor, rank, world_size);
}

}  // namespace

Box ReplicatedBox(const TensorMeta& tensor, int32_t /*rank*/, int32_t /*world_size*/) {
  return Box::Whole(tensor.shape);
}

Box RowShardBox(const TensorMeta& tensor, int32_t rank, int32_t world_size) {
  if (tensor.shape.empty()) return Box::Whole(tensor.shape);
  const int64_t rows = tensor.shape[0];
  return Box::Rows(tensor.shape, RowBegin(rows, rank, world_size), RowBegin(rows, rank + 1, world_size));
}

const Table<PlacementRule>& PlacementRules() {
  static const auto& rules = *new Table<PlacementRule>("placement rule", {{"single_device", &ReplicatedBox},
                                                                          {"ddp", &ReplicatedBox},
                                                                          {"zero1", &OptimizerRowsBox},
                                                                          {"zero2", &OptimizerRowsBox},
                                                                          {"zero3", &AllButBuffersRowsBox}});
  return rules;
}

}  // namespace shardwright
