// FENCE: parameters sharded at birth: as soon as a unit is built, this rank keeps its rows, on the device, and the
// whole is freed, so that building a model peaks at one unit (of host memory) beside the shards.
#ifndef SHARDWRIGHT_STRATEGIES_ZERO3_UNIT_SHARDS_H_
#define SHARDWRIGHT_STRATEGIES_ZERO3_UNIT_SHARDS_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "shardwright/core/manifest/tensor_meta.h"

namespace shardwright {

// Not thread-safe. Parameters are known by identity.
class UnitShards {
 public:
  static constexpr int kRoot = -1;

  UnitShards(int32_t rank, int32_t world_size, c10::Device device)
      : rank_(rank), world_size_(world_size), device_(device) {}

  // A unit was built. Throws (ThrowIfError) if one of its parameters cannot be sharded.
  void AddUnit(int unit, torch::nn::Module& module);
  // The model is built: shards what is in no unit, and finds where each parameter belongs.
  void AddRoot(torch::nn::Module& model);

  // This rank's rows of a parameter.
  Box BoxOf(const TensorMeta& meta) const;
  at::Tensor ShardOf(const at::Tensor& parameter) const;
  // The innermost unit that the parameter is in; kRoot outside all, or where several have it (tied).
  int UnitOf(const at::Tensor& parameter) const;

 private:
  struct Entry {
    at::Tensor shard;
    bool placed = false;
    int unit = kRoot;
  };

  void Shard(torch::nn::Module& module);
  void Place(const torch::nn::Module& module, int unit);
  const Entry& Find(const at::Tensor& parameter) const;

  const int32_t rank_;
  const int32_t world_size_;
  const c10::Device device_;
  absl::flat_hash_map<const void*, Entry> entries_;                // by TensorImpl
  absl::flat_hash_map<const torch::nn::Module*, int> unit_roots_;  // the modules that were wrapped
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_STRATEGIES_ZERO3_UNIT_SHARDS_H_
