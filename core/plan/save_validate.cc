#include "shardwright/core/plan/save_validate.h"

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/base/checked_math.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

absl::Status ValidateMeta(const TensorMeta& tensor) {
  if (tensor.name.empty()) return absl::InvalidArgumentError("planning a save: a tensor has no name");
  if (tensor.name == "__metadata__") {
    return absl::InvalidArgumentError(absl::StrCat(PlanningToSave(tensor), ": safetensors files reserve this name"));
  }
  if (ItemSize(tensor.dtype) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(PlanningToSave(tensor), ": its dtype has no safetensors name"));
  }
  const std::optional<int64_t> elements = CheckedElements(tensor.shape);
  if (!elements || !CheckedMultiply(*elements, ItemSize(tensor.dtype))) {
    return absl::InvalidArgumentError(
        absl::StrCat(PlanningToSave(tensor), ": its size overflows, shape ", ShapeToString(tensor.shape)));
  }
  return absl::OkStatus();
}

absl::Status ValidateAlias(const SaveTensor& alias, const SaveTensor* target) {
  if (target == nullptr || !target->alias_of.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(PlanningToSave(alias.meta), " as an alias of \"", alias.alias_of,
                                                   "\": there is no such tensor with bytes of its own"));
  }
  if (target->meta.shape != alias.meta.shape || target->meta.dtype != alias.meta.dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        PlanningToSave(alias.meta), " as an alias of \"", alias.alias_of, "\": ", DTypeName(alias.meta.dtype),
        ShapeToString(alias.meta.shape), " is not ", DTypeName(target->meta.dtype), ShapeToString(target->meta.shape)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string PlanningToSave(const TensorMeta& tensor) {
  return absl::StrCat("planning to save \"", tensor.name, "\"");
}

absl::Status ValidateSaveTensors(const std::vector<SaveTensor>& tensors) {
  absl::flat_hash_map<absl::string_view, const SaveTensor*> by_name;
  by_name.reserve(tensors.size());
  for (const SaveTensor& tensor : tensors) {
    SW_RETURN_IF_ERROR(ValidateMeta(tensor.meta));
    if (!by_name.emplace(tensor.meta.name, &tensor).second) {
      return absl::InvalidArgumentError(absl::StrCat(PlanningToSave(tensor.meta), ": two tensors have this name"));
    }
  }
  for (const SaveTensor& tensor : tensors) {
    if (tensor.alias_of.empty()) continue;
    const auto target = by_name.find(tensor.alias_of);
    SW_RETURN_IF_ERROR(ValidateAlias(tensor, target == by_name.end() ? nullptr : target->second));
  }
  return absl::OkStatus();
}

}  // namespace shardwright
