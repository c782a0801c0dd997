// What the golden checkpoints hold: tensors of many types and shapes, ties, optimizer state, and extras of every type.
#ifndef SHARDWRIGHT_TESTS_GOLDEN_GOLDEN_STATE_H_
#define SHARDWRIGHT_TESTS_GOLDEN_GOLDEN_STATE_H_

#include <string>
#include <vector>

#include "shardwright/core/manifest/manifest.h"

namespace shardwright::testing {

inline constexpr int32_t kGoldenWorldSize = 2;
inline constexpr char kGoldenStrategy[] = "zero3";

struct GoldenTensor {
  TensorMeta meta;
  std::string alias_of;
};

// Sorted by name.
std::vector<GoldenTensor> GoldenTensors();
// The whole tensor's bytes, row-major; those of the target for an alias.
std::string GoldenBytes(const GoldenTensor& tensor);

TrainingProgress GoldenProgress();
Topology GoldenTopology();
LoadOrder GoldenLoadOrder();
Value::Map GoldenExtras();
Value::Map GoldenRankExtras(int32_t rank);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_GOLDEN_GOLDEN_STATE_H_
