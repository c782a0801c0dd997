#include "shardwright/core/checkpoint/delivery.h"

#include <algorithm>

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/block_consumer.h"
#include "shardwright/core/plan/box_split.h"
#include "shardwright/core/tensor/cast.h"

namespace shardwright {
namespace {

bool IsCast(const LoadTensor& tensor) {
  return tensor.source.stored_dtype != tensor.target.dtype;
}

}  // namespace

absl::Span<char> Delivery::Direct(const LoadTensor& tensor, const Box& box) {
  return IsCast(tensor) ? absl::Span<char>() : sink_.Direct(tensor.target.name, box);
}

absl::Status Delivery::Put(const LoadTensor& tensor, const Box& box, absl::Span<const char> dense) {
  if (!IsCast(tensor)) return sink_.Write(tensor.target.name, box, dense);
  const absl::Span<char> converted = cast_buffer_.first(static_cast<size_t>(tensor.target.BytesOf(box)));
  SW_RETURN_IF_ERROR(CastElements(tensor.source.stored_dtype, dense, tensor.target.dtype, converted))
      << "tensor \"" << tensor.target.name << "\"";
  return sink_.Write(tensor.target.name, box, converted);
}

absl::Status Delivery::PutFromWhole(const LoadTensor& tensor, const Box& box, absl::Span<const char> whole,
                                    uint64_t window_bytes, absl::Span<char> window) {
  const Box all = Box::Whole(tensor.target.shape);
  const int64_t item = ItemSize(tensor.source.stored_dtype);
  SplitLimits limits;
  limits.span_elements = WindowElements(window_bytes, tensor.source.stored_dtype, tensor.target.dtype);
  absl::Status status;
  ForEachPiece(all, box, limits, [&](const Box& piece) {
    if (!status.ok()) return;
    const auto bytes = static_cast<size_t>(piece.elements() * item);
    absl::Span<const char> dense = window.first(std::min(bytes, window.size()));
    if (IsContiguous(all, piece)) {
      dense = whole.subspan(static_cast<size_t>(FirstElement(all, piece) * item), bytes);
    } else {
      CopyBox(whole.data(), all, window.data(), piece, piece, item);
    }
    status = Put(tensor, piece, dense);
  });
  return status;
}

absl::Span<char> PlanConsumer::Direct(const Read& read) {
  return delivery_.Direct(plan_.tensors()[read.tensor], read.box);
}

absl::Status PlanConsumer::Take(const Read& read, absl::Span<char> bytes) {
  const LoadTensor& tensor = plan_.tensors()[read.tensor];
  const absl::Span<char> dense =
      read.contiguous ? bytes
                      : PackInPlace(plan_.ShardOf(read).box, read.box, ItemSize(tensor.source.stored_dtype), bytes);
  return delivery_.Put(tensor, read.box, dense);
}

}  // namespace shardwright
