#include "shardwright/core/checkpoint/checked_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

// Bytes are verified in pieces of this size, while they are in the processor's cache.
constexpr uint64_t kPieceBytes = 256 * 1024;
static_assert(kPieceBytes % kChecksumChunkBytes == 0);

// The whole chunks inside a read; empty if there is none.
FileRange InnerChunks(const ShardMeta& shard, const Read& read) {
  const uint64_t begin = read.offset_bytes - shard.offset_bytes;
  const uint64_t end = begin + read.length_bytes;
  const uint64_t first = (begin + kChecksumChunkBytes - 1) / kChecksumChunkBytes * kChecksumChunkBytes;
  const uint64_t last = end == shard.length_bytes ? end : end / kChecksumChunkBytes * kChecksumChunkBytes;
  return {shard.offset_bytes + first, shard.offset_bytes + std::max(first, last)};
}

}  // namespace

absl::Status CheckChunks(const TensorEntry& tensor, uint32_t shard_index, absl::string_view path, uint64_t begin_bytes,
                         absl::Span<const char> bytes) {
  const ShardMeta& shard = tensor.shards[shard_index];
  for (uint64_t done = 0; done < bytes.size(); done += kChecksumChunkBytes) {
    const uint64_t at = begin_bytes + done;
    const absl::Span<const char> chunk = bytes.subspan(done, kChecksumChunkBytes);
    const uint32_t want = shard.chunk_crc32c[at / kChecksumChunkBytes];
    const uint32_t got = Crc32c(chunk);
    if (got == want) continue;
    return absl::DataLossError(
        absl::StrFormat("tensor \"%s\", shard %d, in %s: crc32c of bytes [%d, %d): want %08x, got %08x",
                        absl::CHexEscape(tensor.meta.name), shard_index, std::string(path), shard.offset_bytes + at,
                        shard.offset_bytes + at + chunk.size(), want, got));
  }
  return absl::OkStatus();
}

absl::Status CheckedReader::Run(const std::vector<Read>& reads, const std::vector<ReadGroup>& groups,
                                ReadConsumer& consumer) {
  for (const ReadGroup& group : groups) {
    const Read& first = reads[group.first];
    const TensorEntry& entry = consumer.EntryOf(first);
    const ShardMeta& shard = entry.shards[first.shard];
    if (group.count == 1 && first.contiguous && first.length_bytes >= kLargeReadBytes) {
      const FileRange inner = Verifies(shard) ? InnerChunks(shard, first)
                                              : FileRange{first.offset_bytes, first.offset_bytes + first.length_bytes};
      const absl::Span<char> out = inner.length_bytes() > 0 ? consumer.Direct(first) : absl::Span<char>();
      if (out.size() == first.length_bytes) {
        SW_RETURN_IF_ERROR(RunDirect(first, entry, inner, out));
        continue;
      }
    }
    SW_RETURN_IF_ERROR(RunStaged(absl::MakeSpan(reads).subspan(group.first, group.count), group, consumer));
  }
  return absl::OkStatus();
}

absl::Status CheckedReader::RunStaged(absl::Span<const Read> reads, const ReadGroup& group, ReadConsumer& consumer) {
  SW_CHECK(group.range.length_bytes() <= window_.size());
  const absl::Span<char> bytes = window_.first(group.range.length_bytes());
  SW_RETURN_IF_ERROR(files_.Read(group.file, group.range.begin_bytes, bytes));
  for (const Read& read : reads) {
    const TensorEntry& entry = consumer.EntryOf(read);
    const ShardMeta& shard = entry.shards[read.shard];
    if (!Verifies(shard)) continue;
    const FileRange chunks = WidenToChunks(shard, read.offset_bytes, read.length_bytes);
    SW_RETURN_IF_ERROR(CheckChunks(entry, read.shard, files_.PathOf(read.file), chunks.begin_bytes - shard.offset_bytes,
                                   bytes.subspan(chunks.begin_bytes - group.range.begin_bytes, chunks.length_bytes())));
  }
  for (const Read& read : reads) {
    const uint64_t begin = read.offset_bytes - group.range.begin_bytes;
    SW_RETURN_IF_ERROR(consumer.Take(read, bytes.subspan(begin, read.length_bytes)));
  }
  return absl::OkStatus();
}

absl::Status CheckedReader::RunDirect(const Read& read, const TensorEntry& entry, const FileRange& inner,
                                      absl::Span<char> out) {
  const uint64_t begin = read.offset_bytes;
  const uint64_t end = begin + read.length_bytes;
  if (begin < inner.begin_bytes) {
    const FileRange head{begin, inner.begin_bytes};
    SW_RETURN_IF_ERROR(ReadEdge(read, entry, head, out.first(head.length_bytes())));
  }
  for (uint64_t at = inner.begin_bytes; at < inner.end_bytes; at += kPieceBytes) {
    const uint64_t length = std::min(kPieceBytes, inner.end_bytes - at);
    SW_RETURN_IF_ERROR(ReadChunks(read, entry, at, out.subspan(at - begin, length)));
  }
  if (end > inner.end_bytes) {
    const FileRange tail{inner.end_bytes, end};
    SW_RETURN_IF_ERROR(ReadEdge(read, entry, tail, out.subspan(tail.begin_bytes - begin, tail.length_bytes())));
  }
  return absl::OkStatus();
}

absl::Status CheckedReader::ReadChunks(const Read& read, const TensorEntry& entry, uint64_t offset_bytes,
                                       absl::Span<char> out) {
  const ShardMeta& shard = entry.shards[read.shard];
  SW_RETURN_IF_ERROR(files_.Read(read.file, offset_bytes, out));
  if (!Verifies(shard)) return absl::OkStatus();
  return CheckChunks(entry, read.shard, files_.PathOf(read.file), offset_bytes - shard.offset_bytes, out);
}

absl::Status CheckedReader::ReadEdge(const Read& read, const TensorEntry& entry, FileRange part, absl::Span<char> out) {
  const FileRange chunk = WidenToChunks(entry.shards[read.shard], part.begin_bytes, part.length_bytes());
  const absl::Span<char> bytes = window_.first(chunk.length_bytes());
  SW_RETURN_IF_ERROR(ReadChunks(read, entry, chunk.begin_bytes, bytes));
  std::memcpy(out.data(), bytes.data() + (part.begin_bytes - chunk.begin_bytes), out.size());
  return absl::OkStatus();
}

}  // namespace shardwright
