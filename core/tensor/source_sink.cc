#include "shardwright/core/tensor/source_sink.h"

#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {

LocalTensors::LocalTensors(const LocalState& state) : index_(state) {
  for (const LocalTensor& tensor : state) SW_CHECK(!tensor.device.is_cuda());
}

absl::Status LocalTensors::Read(absl::string_view name, const Box& box, absl::Span<char> out) const {
  SW_ASSIGN_OR_RETURN(const LocalTensor* tensor, index_.Lookup(name, box, out.size()), _ << "reading");
  if (out.empty()) return absl::OkStatus();
  CopyBox(tensor->data, tensor->box, out.data(), box, box, ItemSize(tensor->meta.dtype));
  return absl::OkStatus();
}

absl::Span<const char> LocalTensors::Direct(absl::string_view name, const Box& box) const {
  const LocalTensor* const tensor = index_.Find(name);
  if (tensor == nullptr || !IsHeldInOneRun(*tensor, box)) return {};
  return {tensor->data + FirstByte(*tensor, box), static_cast<size_t>(tensor->meta.BytesOf(box))};
}

absl::Status LocalTensors::Write(absl::string_view name, const Box& box, absl::Span<const char> bytes) {
  SW_ASSIGN_OR_RETURN(const LocalTensor* tensor, index_.Lookup(name, box, bytes.size()), _ << "writing");
  if (bytes.empty()) return absl::OkStatus();
  CopyBox(bytes.data(), box, tensor->data, tensor->box, box, ItemSize(tensor->meta.dtype));
  return absl::OkStatus();
}

absl::Span<char> LocalTensors::Direct(absl::string_view name, const Box& box) {
  const LocalTensor* const tensor = index_.Find(name);
  if (tensor == nullptr || !IsHeldInOneRun(*tensor, box)) return {};
  return {tensor->data + FirstByte(*tensor, box), static_cast<size_t>(tensor->meta.BytesOf(box))};
}

}  // namespace shardwright
