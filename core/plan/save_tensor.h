// A tensor that a save is asked to write.
#ifndef SHARDWRIGHT_CORE_PLAN_SAVE_TENSOR_H_
#define SHARDWRIGHT_CORE_PLAN_SAVE_TENSOR_H_

#include <string>

#include "shardwright/core/manifest/tensor_meta.h"

namespace shardwright {

struct SaveTensor {
  TensorMeta meta;
  std::string alias_of;  // not empty: nothing is written for it
  friend bool operator==(const SaveTensor&, const SaveTensor&) = default;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_SAVE_TENSOR_H_
