#include "shardwright/core/tensor/source_sink.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

uint64_t FirstByte(const LocalTensor& tensor, const Box& box) {
  return static_cast<uint64_t>(FirstElement(tensor.box, box) * ItemSize(tensor.meta.dtype));
}

bool IsHeldInOneRun(const LocalTensor& tensor, const Box& box) {
  return box.rank() == tensor.box.rank() && !box.empty() && Contains(tensor.box, box) && IsContiguous(tensor.box, box);
}

}  // namespace

LocalTensors::LocalTensors(const LocalState& state) {
  by_name_.reserve(state.size());
  for (const LocalTensor& tensor : state) by_name_.emplace(tensor.meta.name, &tensor);
}

absl::StatusOr<const LocalTensor*> LocalTensors::Lookup(absl::string_view name, const Box& box, size_t bytes) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    return absl::NotFoundError(absl::StrCat("tensor \"", name, "\" is not part of this state"));
  }
  const LocalTensor& tensor = *found->second;
  SW_RETURN_IF_ERROR(ValidateBox(box, tensor.meta.shape)) << "tensor \"" << name << "\"";
  if (!box.empty() && !Contains(tensor.box, box)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", name, "\": box ", box.ToString(),
                                                   " is asked for, this rank holds ", tensor.box.ToString()));
  }
  const auto expected = static_cast<size_t>(tensor.meta.BytesOf(box));
  if (bytes != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", name, "\": box ", box.ToString(), " has ", expected, " bytes, the buffer ", bytes));
  }
  return &tensor;
}

absl::Status LocalTensors::Read(absl::string_view name, const Box& box, absl::Span<char> out) const {
  SW_ASSIGN_OR_RETURN(const LocalTensor* tensor, Lookup(name, box, out.size()), _ << "reading");
  if (out.empty()) return absl::OkStatus();
  CopyBox(tensor->data, tensor->box, out.data(), box, box, ItemSize(tensor->meta.dtype));
  return absl::OkStatus();
}

absl::Span<const char> LocalTensors::Direct(absl::string_view name, const Box& box) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || !IsHeldInOneRun(*found->second, box)) return {};
  const LocalTensor& tensor = *found->second;
  return {tensor.data + FirstByte(tensor, box), static_cast<size_t>(tensor.meta.BytesOf(box))};
}

absl::Status LocalTensors::Write(absl::string_view name, const Box& box, absl::Span<const char> bytes) {
  SW_ASSIGN_OR_RETURN(const LocalTensor* tensor, Lookup(name, box, bytes.size()), _ << "writing");
  if (bytes.empty()) return absl::OkStatus();
  CopyBox(bytes.data(), box, tensor->data, tensor->box, box, ItemSize(tensor->meta.dtype));
  return absl::OkStatus();
}

absl::Span<char> LocalTensors::Direct(absl::string_view name, const Box& box) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || !IsHeldInOneRun(*found->second, box)) return {};
  const LocalTensor& tensor = *found->second;
  return {tensor.data + FirstByte(tensor, box), static_cast<size_t>(tensor.meta.BytesOf(box))};
}

}  // namespace shardwright
