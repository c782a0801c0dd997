#include "shardwright/core/plan/read_groups.h"

#include <algorithm>
#include <tuple>

#include "shardwright/core/plan/box_split.h"

namespace shardwright {

FileRange WidenToChunks(const ShardMeta& shard, uint64_t offset_bytes, uint64_t length_bytes) {
  if (shard.chunk_crc32c.empty() || length_bytes == 0) return {offset_bytes, offset_bytes + length_bytes};
  const uint64_t begin = offset_bytes - shard.offset_bytes;
  const uint64_t end = begin + length_bytes;
  const uint64_t first = begin / kChecksumChunkBytes * kChecksumChunkBytes;
  const uint64_t last = (end + kChecksumChunkBytes - 1) / kChecksumChunkBytes * kChecksumChunkBytes;
  return {shard.offset_bytes + first, shard.offset_bytes + std::min(last, shard.length_bytes)};
}

std::vector<ReadGroup> GroupReads(const std::vector<Read>& reads,
                                  absl::FunctionRef<const ShardMeta&(const Read&)> shard_of, uint64_t window_bytes) {
  std::vector<ReadGroup> groups;
  bool open = false;  // the last group may grow
  for (size_t i = 0; i < reads.size(); ++i) {
    const Read& read = reads[i];
    const FileRange range = WidenToChunks(shard_of(read), read.offset_bytes, read.length_bytes);
    const bool small = read.contiguous && read.length_bytes < kLargeReadBytes;
    if (open && small && groups.back().file == read.file && range.begin_bytes <= groups.back().range.end_bytes &&
        range.begin_bytes >= groups.back().range.begin_bytes &&
        range.end_bytes - groups.back().range.begin_bytes <= window_bytes) {
      groups.back().range.end_bytes = std::max(groups.back().range.end_bytes, range.end_bytes);
      ++groups.back().count;
      continue;
    }
    groups.push_back(ReadGroup{read.file, range, i, 1});
    open = small;
  }
  return groups;
}

void AppendReads(uint32_t tensor, uint32_t shard_index, const ShardMeta& shard, int64_t item_bytes, const Box& common,
                 int64_t span_elements, std::vector<Read>* reads) {
  SplitLimits limits;
  limits.span_elements = std::max<int64_t>(1, span_elements);
  limits.gap_elements = static_cast<int64_t>(2 * kChecksumChunkBytes) / item_bytes;
  limits.align_elements = static_cast<int64_t>(kChecksumChunkBytes) / item_bytes;
  ForEachPiece(shard.box, common, limits, [&](const Box& piece) {
    const int64_t first = FirstElement(shard.box, piece);
    reads->push_back(
        Read{tensor, shard_index, piece, shard.file, shard.offset_bytes + static_cast<uint64_t>(first * item_bytes),
             static_cast<uint64_t>(SpanElements(shard.box, piece) * item_bytes), IsContiguous(shard.box, piece)});
  });
}

void SortReads(std::vector<Read>* reads) {
  std::stable_sort(reads->begin(), reads->end(), [](const Read& a, const Read& b) {
    return std::tie(a.file, a.offset_bytes) < std::tie(b.file, b.offset_bytes);
  });
}

}  // namespace shardwright
