// FENCE (the .cc): torch's default random generators as state that is saved, restored and reseeded: the CPU's, and that
// of the GPU that is computed on.
#ifndef SHARDWRIGHT_CORE_MODULE_TORCH_RANDOM_H_
#define SHARDWRIGHT_CORE_MODULE_TORCH_RANDOM_H_

#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "shardwright/core/device/device.h"
#include "shardwright/core/manifest/value.h"

namespace shardwright {

// {"torch_cpu": bytes}, and on a GPU "torch_cuda" beside it.
Value::Map TorchRandomState(const Device& device = {});
// kInvalidArgument if `state` lacks a generator's, or it is not of this torch's generator.
absl::Status SetTorchRandomState(const Value::Map& state, const Device& device = {});
// A stream of its own for each (seed, step, rank).
void ReseedTorchRandom(uint64_t seed, int64_t step, int32_t rank, const Device& device = {});

// Seeds the CPU's generator and keeps other users of this class away from it while it lives.
class SeededTorchRandom {
 public:
  explicit SeededTorchRandom(uint64_t seed);

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_TORCH_RANDOM_H_
