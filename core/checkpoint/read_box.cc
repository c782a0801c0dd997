#include <algorithm>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/block_consumer.h"
#include "shardwright/core/checkpoint/checked_reader.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/checkpoint/data_files.h"
#include "shardwright/core/device/buffer.h"
#include "shardwright/core/plan/read_groups.h"
#include "shardwright/core/plan/shard_index.h"

namespace shardwright {
namespace {

constexpr uint64_t kWindowBytes = 4 * 1024 * 1024;

absl::Status CheckRequest(const TensorMeta& tensor, const Box& box, size_t out_bytes) {
  SW_RETURN_IF_ERROR(ValidateBox(box, tensor.shape)) << "reading tensor \"" << tensor.name << "\"";
  const auto expected = static_cast<size_t>(tensor.BytesOf(box));
  if (out_bytes == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("reading tensor \"", tensor.name, "\": box ", box.ToString(), " has ",
                                                 expected, " bytes, the buffer ", out_bytes));
}

std::vector<Read> ReadsOfBox(const TensorEntry& entry, const Box& box) {
  std::vector<Read> reads;
  const int64_t item = ItemSize(entry.meta.dtype);
  ShardIndex(entry).ForEachOverlap(box, [&](uint32_t shard, const Box& common) {
    AppendReads(0, shard, entry.shards[shard], item, common, static_cast<int64_t>(kWindowBytes) / item, &reads);
  });
  SortReads(&reads);
  return reads;
}

}  // namespace

absl::Status ReadBox(Storage& storage, absl::string_view path, const Manifest& manifest, absl::string_view name,
                     const Box& box, absl::Span<char> out, CheckLevel check) {
  const TensorEntry* found = manifest.Find(name);
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("reading tensor \"", name, "\": ", path, " has none of that name"));
  }
  const TensorEntry& entry = manifest.Resolve(*found);
  SW_RETURN_IF_ERROR(CheckRequest(found->meta, box, out.size()));
  const std::vector<Read> reads = ReadsOfBox(entry, box);
  const std::vector<ReadGroup> groups = GroupReads(
      reads, [&](const Read& read) -> const ShardMeta& { return entry.shards[read.shard]; }, kWindowBytes);
  uint64_t window_bytes = 0;
  for (const ReadGroup& group : groups) window_bytes = std::max(window_bytes, group.range.length_bytes());
  SW_ASSIGN_OR_RETURN(const HostBuffer window, HostBuffer::Allocate(window_bytes));
  DataFiles files(storage, path, manifest);
  BlockConsumer consumer(entry, box, out);
  return CheckedReader(files, window.span(), check == CheckLevel::kFull).Run(reads, groups, consumer);
}

}  // namespace shardwright
