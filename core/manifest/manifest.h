// The manifest: an account of every tensor of a checkpoint and of the checksummed file bytes that hold it. It is
// written last, so its presence says that the checkpoint is whole. docs/format.md specifies its persisted form.
#ifndef SHARDWRIGHT_CORE_MANIFEST_MANIFEST_H_
#define SHARDWRIGHT_CORE_MANIFEST_MANIFEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/manifest/load_order.h"
#include "shardwright/core/manifest/tensor_meta.h"
#include "shardwright/core/manifest/value.h"

namespace shardwright {

inline constexpr uint32_t kFormatVersion = 1;
inline constexpr absl::string_view kManifestFileName = "manifest.pb";
inline constexpr int kMaxValueDepth = 64;     // of extras; a value of an extras map is at depth 1
inline constexpr size_t kMaxDimensions = 64;  // of a tensor

// Persisted by number.
enum class SaveLayout : uint8_t {
  kSharded = 1,     // each rank writes its own files
  kSingleFile = 2,  // all ranks write whole tensors into shared files
};
absl::string_view SaveLayoutName(SaveLayout layout);
absl::StatusOr<SaveLayout> ParseSaveLayout(absl::string_view name);

// One box of a tensor, dense and row-major at [offset, offset + length) of a file.
struct ShardMeta {
  Box box;
  uint32_t file = 0;  // index into ManifestData::files
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  // One per started kChecksumChunkBytes of the shard; empty: no checksums (foreign).
  std::vector<uint32_t> chunk_crc32c;
  // XXH3-128 of the shard's bytes; all zero where a shard that is not empty has no chunk_crc32c.
  ContentHash hash;
  friend bool operator==(const ShardMeta&, const ShardMeta&) = default;
};

struct TensorEntry {
  TensorMeta meta;
  std::string alias_of;  // not empty: no shards of its own, the bytes are that tensor's (tied weights)
  std::vector<ShardMeta> shards;
  // Foreign manifests only: no shards of its own, its bytes lie in no file as they are wanted (compressed, strided);
  // the reader of the format makes them (a TensorSource).
  bool computed = false;
  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

struct FileMeta {
  std::string path;  // relative, inside the checkpoint's directory
  uint64_t size_bytes = 0;
  // CRC32C of the bytes that no shard covers (a safetensors header): [0, header_bytes).
  uint64_t header_bytes = 0;
  uint32_t header_crc32c = 0;
  friend bool operator==(const FileMeta&, const FileMeta&) = default;
};

struct Topology {
  int32_t world_size = 1;
  int32_t ranks_per_node = 1;
  std::string strategy;  // "ddp"
  int32_t threads_per_rank = 0;
  friend bool operator==(const Topology&, const Topology&) = default;
};

// Where the run stands. Counters are of finished optimizer steps.
struct TrainingProgress {
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t samples_seen = 0;
  friend bool operator==(const TrainingProgress&, const TrainingProgress&) = default;
};

// The plain content of a manifest. Fill it, then make a Manifest of it.
struct ManifestData {
  uint32_t format_version = kFormatVersion;
  uint32_t min_reader_version = kFormatVersion;
  std::string writer;  // "shardwright 0.1.0"
  SaveLayout layout = SaveLayout::kSharded;
  TrainingProgress progress;
  Topology topology;
  LoadOrder load_order;
  std::vector<FileMeta> files;
  std::vector<TensorEntry> tensors;     // sorted by name
  Value::Map extras;                    // rank 0's
  std::vector<Value::Map> rank_extras;  // index: saving rank (RNG state and the like); empty or world_size long
  friend bool operator==(const ManifestData&, const ManifestData&) = default;
};

// Whose checkpoint a manifest describes. Those of other systems may hold what a native one may not: shards that share
// bytes (views of one storage), computed tensors, tensors of the run's state, and types that native files lack.
enum class ManifestKind { kNative, kForeign };

// Validated and immutable. Thread-safe (const only).
class Manifest {
 public:
  // Sorts the tensors by name. kDataLoss naming tensor or file, expected and got, unless: names are unique and not
  // empty; file paths are unique and stay inside the directory; every shard lies in its file, behind the header, and
  // has the length of its box; shards tile their tensor without gap or overlap and do not overlap each other in a file;
  // aliases have no shards and name a tensor of equal shape and dtype that is no alias; every product fits int64; chunk
  // counts match lengths; counts are not negative; extras nest at most kMaxValueDepth deep; enumerations have known
  // numbers. Of kForeign, shards may overlap each other in a file, and computed tensors have none.
  static absl::StatusOr<std::shared_ptr<const Manifest>> Create(ManifestData data,
                                                                ManifestKind kind = ManifestKind::kNative);

  ManifestKind kind() const { return kind_; }
  const ManifestData& data() const { return data_; }
  const std::vector<TensorEntry>& tensors() const { return data_.tensors; }
  const std::vector<FileMeta>& files() const { return data_.files; }
  // Null if there is none of that name.
  const TensorEntry* Find(absl::string_view name) const;
  // The entry that holds the bytes: itself, or the target of its alias.
  const TensorEntry& Resolve(const TensorEntry& entry) const;
  // Sum of all shard lengths: nothing for computed tensors.
  uint64_t TotalBytes() const;

 private:
  Manifest(ManifestData data, ManifestKind kind);
  ManifestData data_;
  ManifestKind kind_;
  absl::flat_hash_map<absl::string_view, size_t> by_name_;  // views into data_.tensors, which never changes
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_MANIFEST_H_
