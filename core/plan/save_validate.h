// What can be wrong with the tensors of a save before ranks are looked at. A part of PlanSave.
#ifndef SHARDWRIGHT_CORE_PLAN_SAVE_VALIDATE_H_
#define SHARDWRIGHT_CORE_PLAN_SAVE_VALIDATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/plan/save_tensor.h"

namespace shardwright {

// Names the action and the tensor in messages: planning to save "a.b".
std::string PlanningToSave(const TensorMeta& tensor);

// kInvalidArgument naming the tensor if a name is empty, reserved or repeated, a dtype has no safetensors name, a size
// overflows, or an alias does not fit the tensor it names.
absl::Status ValidateSaveTensors(const std::vector<SaveTensor>& tensors);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_SAVE_VALIDATE_H_
