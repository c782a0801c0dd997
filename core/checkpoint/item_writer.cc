#include "shardwright/core/checkpoint/item_writer.h"

#include <algorithm>
#include <future>

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/plan/box_split.h"

namespace shardwright {
namespace {

// What is hashed and written at a time: stays in the cache in between.
constexpr uint64_t kPieceBytes = 256 * 1024;
// Smaller items are gathered: a copy costs less than a call.
constexpr uint64_t kDirectBytes = 256 * 1024;
// Larger items are hashed beside the write, in a thread of their own.
constexpr uint64_t kParallelBytes = 4 * 1024 * 1024;

}  // namespace

absl::StatusOr<ItemChecksums> ItemWriter::Write(const TensorMeta& tensor, const WriteItem& item, WriteFile& file,
                                                uint64_t offset_bytes) {
  ShardHasher hasher;
  absl::Span<const char> direct;
  if (item.length_bytes >= kDirectBytes) direct = source_.Direct(tensor.name, item.box);
  if (item.length_bytes > 0 && direct.size() == item.length_bytes) {
    SW_RETURN_IF_ERROR(WriteDirect(direct, file, offset_bytes, hasher));
  } else {
    SW_RETURN_IF_ERROR(WriteStaged(tensor, item.box, file, offset_bytes, hasher));
  }
  return ItemChecksums{hasher.FinishChunks(), hasher.FinishHash()};
}

absl::Status ItemWriter::WriteDirect(absl::Span<const char> bytes, WriteFile& file, uint64_t offset_bytes,
                                     ShardHasher& hasher) {
  if (bytes.size() >= kParallelBytes) {
    // Joined by its destructor, should the write fail.
    const std::future<void> hashed = std::async(std::launch::async, [&] { hasher.Update(bytes); });
    return file.WriteAt(offset_bytes, bytes);
  }
  for (uint64_t done = 0; done < bytes.size(); done += kPieceBytes) {
    const absl::Span<const char> piece = bytes.subspan(done, kPieceBytes);
    hasher.Update(piece);
    SW_RETURN_IF_ERROR(file.WriteAt(offset_bytes + done, piece));
  }
  return absl::OkStatus();
}

absl::Status ItemWriter::WriteStaged(const TensorMeta& tensor, const Box& box, WriteFile& file, uint64_t offset_bytes,
                                     ShardHasher& hasher) {
  const int64_t item = ItemSize(tensor.dtype);
  SplitLimits limits;
  limits.span_elements = static_cast<int64_t>(std::min<uint64_t>(kPieceBytes, staging_.size())) / item;
  absl::Status status;
  ForEachPiece(box, box, limits, [&](const Box& piece) {
    if (!status.ok()) return;
    const auto bytes = static_cast<uint64_t>(piece.elements() * item);
    const absl::StatusOr<absl::Span<char>> staged = Stage(file, offset_bytes, bytes);
    status = staged.ok() ? source_.Read(tensor.name, piece, *staged) : staged.status();
    if (!status.ok()) return;
    hasher.Update(*staged);
    offset_bytes += bytes;
  });
  return status;
}

absl::StatusOr<absl::Span<char>> ItemWriter::Stage(WriteFile& file, uint64_t offset_bytes, uint64_t bytes) {
  const bool adjacent = file_ == &file && offset_bytes == begin_bytes_ + staged_bytes_;
  if (staged_bytes_ > 0 && (!adjacent || bytes > staging_.size() - staged_bytes_)) {
    SW_RETURN_IF_ERROR(Flush());
  }
  if (staged_bytes_ == 0) {
    file_ = &file;
    begin_bytes_ = offset_bytes;
  }
  const absl::Span<char> space = staging_.subspan(staged_bytes_, bytes);
  staged_bytes_ += bytes;
  return space;
}

absl::Status ItemWriter::Flush() {
  if (staged_bytes_ == 0) return absl::OkStatus();
  const absl::Status written = file_->WriteAt(begin_bytes_, staging_.first(staged_bytes_));
  staged_bytes_ = 0;
  return written;
}

}  // namespace shardwright
