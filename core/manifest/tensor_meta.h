// What is known of a tensor without its bytes.
#ifndef SHARDWRIGHT_CORE_MANIFEST_TENSOR_META_H_
#define SHARDWRIGHT_CORE_MANIFEST_TENSOR_META_H_

#include <cstdint>
#include <string>

#include "shardwright/core/manifest/box.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright {

// Persisted by number.
enum class Role : uint8_t {
  kParameter = 1,
  kBuffer = 2,
  kOptimizer = 3,
  kState = 4,  // of the run, not of the model: random state, a callback's best score; foreign checkpoints only
};

// Optimizer state is found by these fields, never by taking its name apart.
struct OptimizerField {
  int32_t index = 0;      // which optimizer
  std::string parameter;  // true name of the parameter
  std::string slot;       // "exp_avg", "exp_avg_sq", "momentum_buffer", "step"
  friend bool operator==(const OptimizerField&, const OptimizerField&) = default;
};

struct TensorMeta {
  std::string name;
  DType dtype = DType::kInvalid;
  Shape shape;  // global shape
  Role role = Role::kParameter;
  OptimizerField optimizer;  // only for Role::kOptimizer
  bool trainable = true;     // false: frozen parameter

  int64_t elements() const { return Box::Whole(shape).elements(); }
  int64_t bytes() const { return elements() * ItemSize(dtype); }
  // Bytes of one of its boxes.
  int64_t BytesOf(const Box& box) const { return box.elements() * ItemSize(dtype); }

  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};

// "optimizer.<index>.state.<parameter>.<slot>"
std::string OptimizerTensorName(const OptimizerField& field);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_TENSOR_META_H_
