#include "shardwright/core/tensor/state_index.h"

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {

StateIndex::StateIndex(const LocalState& state) {
  by_name_.reserve(state.size());
  for (const LocalTensor& tensor : state) by_name_.emplace(tensor.meta.name, &tensor);
}

const LocalTensor* StateIndex::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

absl::StatusOr<const LocalTensor*> StateIndex::Lookup(absl::string_view name, const Box& box, size_t bytes) const {
  const LocalTensor* const tensor = Find(name);
  if (tensor == nullptr) return absl::NotFoundError(absl::StrCat("tensor \"", name, "\" is not part of this state"));
  SW_RETURN_IF_ERROR(ValidateBox(box, tensor->meta.shape)) << "tensor \"" << name << "\"";
  if (!box.empty() && !Contains(tensor->box, box)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", name, "\": box ", box.ToString(),
                                                   " is asked for, this rank holds ", tensor->box.ToString()));
  }
  const auto expected = static_cast<size_t>(tensor->meta.BytesOf(box));
  if (bytes != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", name, "\": box ", box.ToString(), " has ", expected, " bytes, the buffer ", bytes));
  }
  return tensor;
}

uint64_t FirstByte(const LocalTensor& tensor, const Box& box) {
  return static_cast<uint64_t>(FirstElement(tensor.box, box) * ItemSize(tensor.meta.dtype));
}

bool IsHeldInOneRun(const LocalTensor& tensor, const Box& box) {
  return box.rank() == tensor.box.rank() && !box.empty() && Contains(tensor.box, box) && IsContiguous(tensor.box, box);
}

}  // namespace shardwright
