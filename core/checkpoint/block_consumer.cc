#include "shardwright/core/checkpoint/block_consumer.h"

#include <cstring>

namespace shardwright {

absl::Span<char> PackInPlace(const Box& container, const Box& part, int64_t item_bytes, absl::Span<char> span) {
  const int64_t first = FirstElement(container, part);
  // Runs only ever move towards the front, in order, so that none overwrites one that is still to be moved.
  ForEachRun(container, part, [&](int64_t container_offset, int64_t elements, int64_t part_offset) {
    std::memmove(span.data() + part_offset * item_bytes, span.data() + (container_offset - first) * item_bytes,
                 static_cast<size_t>(elements * item_bytes));
  });
  return span.first(static_cast<size_t>(part.elements() * item_bytes));
}

absl::Span<char> BlockConsumer::Direct(const Read& read) {
  if (!IsContiguous(block_, read.box)) return {};
  const auto offset = static_cast<uint64_t>(FirstElement(block_, read.box) * ItemSize(entry_.meta.dtype));
  return memory_.subspan(offset, read.length_bytes);
}

absl::Status BlockConsumer::Take(const Read& read, absl::Span<char> bytes) {
  const int64_t item = ItemSize(entry_.meta.dtype);
  const absl::Span<char> dense = PackInPlace(entry_.shards[read.shard].box, read.box, item, bytes);
  CopyBox(dense.data(), read.box, memory_.data(), block_, read.box, item);
  return absl::OkStatus();
}

}  // namespace shardwright
