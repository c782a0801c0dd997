#include "shardwright/core/manifest/tensor_meta.h"

#include "absl/strings/str_cat.h"

namespace shardwright {

std::string OptimizerTensorName(const OptimizerField& field) {
  return absl::StrCat("optimizer.", field.index, ".state.", field.parameter, ".", field.slot);
}

}  // namespace shardwright
