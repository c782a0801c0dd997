// Executes reads: fetches them in groups, verifies the checksum chunks that they touch, and hands the bytes on.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_CHECKED_READER_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_CHECKED_READER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardwright/core/checkpoint/data_files.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/plan/read_groups.h"

namespace shardwright {

// Takes what is read. Called only with verified bytes, except where Direct was answered.
class ReadConsumer {
 public:
  virtual ~ReadConsumer() = default;
  // The stored tensor that a read belongs to.
  virtual const TensorEntry& EntryOf(const Read& read) const = 0;
  // Where the bytes of a contiguous read may be put as they are; empty: Take gets them. Asked right before they are
  // read there, so that whoever gives the memory knows that it changes now.
  virtual absl::Span<char> Direct(const Read& read) { return {}; }
  // `bytes` is the span [offset, offset + length) of the read, in the order stored; it may be overwritten.
  virtual absl::Status Take(const Read& read, absl::Span<char> bytes) = 0;
};

// kDataLoss naming tensor, shard, file, offset, want and got if a chunk is not what was written. `bytes` are whole
// chunks of the shard from `begin_bytes` of it on.
absl::Status CheckChunks(const TensorEntry& tensor, uint32_t shard, absl::string_view path, uint64_t begin_bytes,
                         absl::Span<const char> bytes);

// Thread-compatible. Borrows all it is given. The window must hold every group of more than one chunk.
class CheckedReader {
 public:
  CheckedReader(DataFiles& files, absl::Span<char> window, bool verify)
      : files_(files), window_(window), verify_(verify) {}

  // `groups` are of `reads`.
  absl::Status Run(const std::vector<Read>& reads, const std::vector<ReadGroup>& groups, ReadConsumer& consumer);

 private:
  absl::Status RunStaged(absl::Span<const Read> reads, const ReadGroup& group, ReadConsumer& consumer);
  absl::Status RunDirect(const Read& read, const TensorEntry& entry, const FileRange& inner, absl::Span<char> out);
  // Reads whole chunks of the shard into `out`, which begins at `offset_bytes` of the file, and verifies them.
  absl::Status ReadChunks(const Read& read, const TensorEntry& entry, uint64_t offset_bytes, absl::Span<char> out);
  // Reads the chunk in which an end of a direct read lies, and copies the part [begin, end) of the file.
  absl::Status ReadEdge(const Read& read, const TensorEntry& entry, FileRange part, absl::Span<char> out);
  bool Verifies(const ShardMeta& shard) const { return verify_ && !shard.chunk_crc32c.empty(); }

  DataFiles& files_;
  const absl::Span<char> window_;
  const bool verify_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_CHECKED_READER_H_
