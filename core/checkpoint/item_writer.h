// Writes the items of a save plan into their files, hashing the bytes while they are in the processor's cache.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_ITEM_WRITER_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_ITEM_WRITER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/plan/save_plan.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/tensor/source_sink.h"

namespace shardwright {

// Checksums of one written item.
struct ItemChecksums {
  std::vector<uint32_t> chunks;
  ContentHash hash;
};

// Large items that lie contiguous in memory are written from where they lie. Others, and neighbours that are small, are
// gathered in `staging` (at least 64 bytes, unless there is nothing to write) and written together.
// Sticks on nothing: after an error, drop it. Borrows all it is given.
class ItemWriter {
 public:
  ItemWriter(const TensorSource& source, absl::Span<char> staging) : source_(source), staging_(staging) {}

  // Hashes the item and writes it at `offset_bytes` of the file, perhaps only with a later call or Flush.
  // The file must stay open until then.
  absl::StatusOr<ItemChecksums> Write(const TensorMeta& tensor, const WriteItem& item, WriteFile& file,
                                      uint64_t offset_bytes);
  absl::Status Flush();

 private:
  absl::Status WriteDirect(absl::Span<const char> bytes, WriteFile& file, uint64_t offset_bytes, ShardHasher& hasher);
  absl::Status WriteStaged(const TensorMeta& tensor, const Box& box, WriteFile& file, uint64_t offset_bytes,
                           ShardHasher& hasher);
  // The next `bytes` of staging, to become [offset, offset + bytes) of the file. Flushes what cannot go with them.
  absl::StatusOr<absl::Span<char>> Stage(WriteFile& file, uint64_t offset_bytes, uint64_t bytes);

  const TensorSource& source_;
  const absl::Span<char> staging_;
  WriteFile* file_ = nullptr;  // Not owned. Of what is staged.
  uint64_t begin_bytes_ = 0;   // where it belongs
  uint64_t staged_bytes_ = 0;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_ITEM_WRITER_H_
