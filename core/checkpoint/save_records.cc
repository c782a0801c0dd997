#include "shardwright/core/checkpoint/save_records.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/base/version.h"
#include "shardwright/core/manifest/codec.h"
#include "shardwright/core/manifest/little_endian.h"

namespace shardwright {
namespace {

constexpr size_t kHeaderRecordBytes = 16;

template <typename T>
void Append(T value, std::string* out) {
  char bytes[sizeof(T)];
  StoreLittleEndian(value, bytes);
  out->append(bytes, sizeof(T));
}

// Takes values off the front of a message.
class MessageReader {
 public:
  explicit MessageReader(absl::string_view rest) : rest_(rest) {}
  template <typename T>
  T Take() {
    const T value = LoadLittleEndian<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  absl::string_view TakeBytes(size_t count) {
    const absl::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  size_t left() const { return rest_.size(); }

 private:
  absl::string_view rest_;
};

absl::Status Malformed(absl::string_view what) {
  return absl::InternalError(absl::StrCat("a rank's record of what it saved does not fit the plan: ", what));
}

size_t ChunksOf(const WriteItem& item) {
  return static_cast<size_t>((item.length_bytes + kChecksumChunkBytes - 1) / kChecksumChunkBytes);
}

size_t ChecksumBytes(const std::vector<WriteItem>& items) {
  size_t bytes = 0;
  for (const WriteItem& item : items) bytes += sizeof(ContentHash) + sizeof(uint32_t) * ChunksOf(item);
  return bytes;
}

// Extras travel as a manifest that has nothing else: one codec for values.
absl::StatusOr<std::string> EncodeExtras(const Value::Map& extras) {
  ManifestData data;
  data.extras = extras;
  SW_ASSIGN_OR_RETURN(const std::shared_ptr<const Manifest> manifest, Manifest::Create(std::move(data)));
  return EncodeManifest(*manifest);
}

ShardMeta MakeShard(const WriteItem& item, uint64_t header_bytes, ItemChecksums checksums) {
  ShardMeta shard{item.box, item.file, header_bytes + item.data_offset_bytes, item.length_bytes, {}, {}};
  shard.chunk_crc32c = std::move(checksums.chunks);
  if (item.length_bytes > 0) shard.hash = checksums.hash;
  return shard;
}

std::vector<FileMeta> MakeFiles(const SavePlan& plan, const std::vector<HeaderRecord>& headers) {
  std::vector<FileMeta> files;
  for (size_t i = 0; i < plan.files.size(); ++i) {
    files.push_back(
        {plan.files[i].path, headers[i].bytes + plan.files[i].data_bytes, headers[i].bytes, headers[i].crc32c});
  }
  return files;
}

}  // namespace

std::string EncodeHeaderRecords(const std::vector<HeaderRecord>& records) {
  std::string message;
  for (const HeaderRecord& record : records) {
    Append(record.file, &message);
    Append(record.bytes, &message);
    Append(record.crc32c, &message);
  }
  return message;
}

absl::StatusOr<std::vector<HeaderRecord>> DecodeHeaderRecords(const std::vector<std::string>& messages,
                                                              const SavePlan& plan) {
  std::vector<std::optional<HeaderRecord>> found(plan.files.size());
  for (const std::string& message : messages) {
    if (message.size() % kHeaderRecordBytes != 0) return Malformed("headers");
    for (MessageReader reader(message); reader.left() > 0;) {
      HeaderRecord record;
      record.file = reader.Take<uint32_t>();
      record.bytes = reader.Take<uint64_t>();
      record.crc32c = reader.Take<uint32_t>();
      if (record.file >= found.size() || found[record.file].has_value()) return Malformed("headers");
      found[record.file] = record;
    }
  }
  std::vector<HeaderRecord> records;
  for (const std::optional<HeaderRecord>& record : found) {
    if (!record.has_value()) return Malformed("a file has no header");
    records.push_back(*record);
  }
  return records;
}

absl::StatusOr<std::string> EncodeRankRecord(const Value::Map& extras, const std::vector<ItemChecksums>& items) {
  SW_ASSIGN_OR_RETURN(const std::string encoded, EncodeExtras(extras), _ << "this rank's extras");
  std::string message;
  Append(uint64_t{encoded.size()}, &message);
  message += encoded;
  for (const ItemChecksums& item : items) {
    Append(item.hash.high, &message);
    Append(item.hash.low, &message);
    for (uint32_t crc : item.chunks) Append(crc, &message);
  }
  return message;
}

absl::StatusOr<RankRecord> DecodeRankRecord(absl::string_view message, const std::vector<WriteItem>& items) {
  MessageReader reader(message);
  if (reader.left() < sizeof(uint64_t)) return Malformed("no extras");
  const auto extras_bytes = reader.Take<uint64_t>();
  if (extras_bytes > reader.left() || reader.left() - extras_bytes != ChecksumBytes(items)) {
    return Malformed(absl::StrCat(items.size(), " items, ", message.size(), " bytes"));
  }
  RankRecord record;
  SW_ASSIGN_OR_RETURN(const std::shared_ptr<const Manifest> extras, DecodeManifest(reader.TakeBytes(extras_bytes)),
                      _ << "a rank's extras");
  record.extras = extras->data().extras;
  for (const WriteItem& item : items) {
    ItemChecksums checksums;
    checksums.hash.high = reader.Take<uint64_t>();
    checksums.hash.low = reader.Take<uint64_t>();
    for (size_t i = 0; i < ChunksOf(item); ++i) checksums.chunks.push_back(reader.Take<uint32_t>());
    record.items.push_back(std::move(checksums));
  }
  return record;
}

absl::StatusOr<std::shared_ptr<const Manifest>> BuildManifest(const SavePlan& plan, const SaveContent& content,
                                                              const std::vector<HeaderRecord>& headers,
                                                              const std::vector<std::string>& messages) {
  ManifestData data;
  data.writer = absl::StrCat("shardwright ", kVersion);
  data.layout = plan.layout;
  data.progress = content.progress;
  data.topology = content.topology;
  data.load_order = content.load_order;
  data.extras = content.extras;
  data.files = MakeFiles(plan, headers);
  for (const SaveTensor& tensor : plan.tensors) data.tensors.push_back({tensor.meta, tensor.alias_of, {}});
  bool any_extras = false;
  for (int32_t rank = 0; rank < plan.world.size; ++rank) {
    const std::vector<WriteItem> items = plan.ItemsOf(rank);
    SW_ASSIGN_OR_RETURN(RankRecord record, DecodeRankRecord(messages[rank], items), _ << "rank " << rank);
    for (size_t i = 0; i < items.size(); ++i) {
      data.tensors[items[i].tensor].shards.push_back(
          MakeShard(items[i], headers[items[i].file].bytes, std::move(record.items[i])));
    }
    any_extras = any_extras || !record.extras.empty();
    data.rank_extras.push_back(std::move(record.extras));
  }
  if (!any_extras) data.rank_extras.clear();
  for (TensorEntry& tensor : data.tensors) {
    std::sort(tensor.shards.begin(), tensor.shards.end(),
              [](const ShardMeta& a, const ShardMeta& b) { return a.box < b.box; });
  }
  return Manifest::Create(std::move(data));
}

}  // namespace shardwright
