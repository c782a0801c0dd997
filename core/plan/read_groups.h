// Reads, the whole checksum chunks that they need, and the groups in which they are fetched from a file.
#ifndef SHARDWRIGHT_CORE_PLAN_READ_GROUPS_H_
#define SHARDWRIGHT_CORE_PLAN_READ_GROUPS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "shardwright/core/manifest/manifest.h"

namespace shardwright {

// `box` is stored in shard `shard` of the source tensor. The bytes [offset, offset + length) of the file hold it:
// exactly, if `contiguous`; else with other elements in between (a column slice).
struct Read {
  uint32_t tensor = 0;  // index into LoadPlan::tensors()
  uint32_t shard = 0;   // index into the source's TensorEntry::shards
  Box box;              // in coordinates of the tensor
  uint32_t file = 0;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  bool contiguous = true;
  friend bool operator==(const Read&, const Read&) = default;
};

// Bytes [begin, end) of a file.
struct FileRange {
  uint64_t begin_bytes = 0;
  uint64_t end_bytes = 0;
  uint64_t length_bytes() const { return end_bytes - begin_bytes; }
  friend bool operator==(const FileRange&, const FileRange&) = default;
};

// The range widened to whole checksum chunks of the shard; as it is where the shard has no checksums.
FileRange WidenToChunks(const ShardMeta& shard, uint64_t offset_bytes, uint64_t length_bytes);

// Reads [first, first + count) of a list, fetched by one request.
struct ReadGroup {
  uint32_t file = 0;
  FileRange range;
  size_t first = 0;
  size_t count = 0;
  friend bool operator==(const ReadGroup&, const ReadGroup&) = default;
};

// Reads of at least this many bytes are fetched alone, so that they can go straight to where they belong; so are those
// that are not contiguous, which are packed in the window.
inline constexpr uint64_t kLargeReadBytes = 256 * 1024;

// Groups neighbours of a list sorted by file and offset: small reads whose widened ranges touch go together, up to
// `window_bytes`, so that 100,000 tiny tensors do not cost 100,000 requests.
std::vector<ReadGroup> GroupReads(const std::vector<Read>& reads,
                                  absl::FunctionRef<const ShardMeta&(const Read&)> shard_of, uint64_t window_bytes);

// Cuts the part `common` of a shard into reads that span at most `span_elements`, skipping what lies between rows where
// that is longer than checksum chunks. Adds them to `reads`.
void AppendReads(uint32_t tensor, uint32_t shard_index, const ShardMeta& shard, int64_t item_bytes, const Box& common,
                 int64_t span_elements, std::vector<Read>* reads);

// By file and offset.
void SortReads(std::vector<Read>* reads);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_READ_GROUPS_H_
