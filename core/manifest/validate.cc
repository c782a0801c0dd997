#include "shardwright/core/manifest/validate.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "shardwright/core/base/checked_math.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/manifest/box.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright {
namespace {

constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();

template <typename... Parts>
absl::Status DataLoss(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}

// Names come from files: escaped, and not without end.
std::string Quote(absl::string_view name) {
  constexpr size_t kMaxShown = 200;
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, kMaxShown)), name.size() > kMaxShown ? "..." : "", "\"");
}

absl::Status ValidateVersions(const ManifestData& data) {
  if (data.min_reader_version < 1 || data.min_reader_version > data.format_version) {
    return DataLoss("format version ", data.format_version, " with minimum reader version ", data.min_reader_version,
                    ": want 1 <= minimum <= version");
  }
  return absl::OkStatus();
}

absl::Status ValidateRun(const ManifestData& data) {
  if (data.layout != SaveLayout::kSharded && data.layout != SaveLayout::kSingleFile) {
    return DataLoss("unknown layout number ", static_cast<int>(data.layout));
  }
  if (data.load_order.mode > LoadMode::kBroadcast) {
    return DataLoss("unknown load mode number ", static_cast<int>(data.load_order.mode));
  }
  if (data.load_order.max_concurrent_per_node < 0) {
    return DataLoss("load order of ", data.load_order.max_concurrent_per_node, " ranks at once");
  }
  const Topology& topology = data.topology;
  if (topology.world_size < 1 || topology.ranks_per_node < 1 || topology.threads_per_rank < 0) {
    return DataLoss("topology of ", topology.world_size, " ranks, ", topology.ranks_per_node, " per node, ",
                    topology.threads_per_rank, " threads per rank");
  }
  const TrainingProgress& progress = data.progress;
  if (progress.step < 0 || progress.epoch < 0 || progress.samples_seen < 0) {
    return DataLoss("negative progress: step ", progress.step, ", epoch ", progress.epoch, ", samples ",
                    progress.samples_seen);
  }
  return absl::OkStatus();
}

bool NestsTooDeep(const Value& value, int depth) {
  if (depth > kMaxValueDepth) return true;
  if (const auto* list = value.get_if<Value::List>()) {
    return std::any_of(list->begin(), list->end(), [&](const Value& v) { return NestsTooDeep(v, depth + 1); });
  }
  if (const auto* map = value.get_if<Value::Map>()) {
    return std::any_of(map->begin(), map->end(), [&](const auto& row) { return NestsTooDeep(row.second, depth + 1); });
  }
  return false;
}

absl::Status ValidateExtras(const Value::Map& extras) {
  for (const auto& [key, value] : extras) {
    if (NestsTooDeep(value, 1)) return DataLoss("extra ", Quote(key), " is nested deeper than ", kMaxValueDepth);
  }
  return absl::OkStatus();
}

absl::Status ValidateAllExtras(const ManifestData& data) {
  SW_RETURN_IF_ERROR(ValidateExtras(data.extras));
  const size_t ranks = data.rank_extras.size();
  if (ranks != 0 && ranks != static_cast<size_t>(data.topology.world_size)) {
    return DataLoss("extras of ", ranks, " ranks, want none or ", data.topology.world_size);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    SW_RETURN_IF_ERROR(ValidateExtras(data.rank_extras[rank])) << "rank " << rank;
  }
  return absl::OkStatus();
}

bool StaysInside(absl::string_view path) {
  if (path.find('\0') != absl::string_view::npos || path.find('\\') != absl::string_view::npos) return false;
  for (absl::string_view component : absl::StrSplit(path, '/')) {
    if (component.empty() || component == "." || component == "..") return false;
  }
  return true;
}

absl::Status ValidateFiles(const std::vector<FileMeta>& files) {
  absl::flat_hash_set<absl::string_view> paths;
  uint64_t total = 0;
  for (const FileMeta& file : files) {
    if (!StaysInside(file.path)) return DataLoss("file ", Quote(file.path), ": not a path inside the checkpoint");
    if (!paths.insert(file.path).second) return DataLoss("file ", Quote(file.path), " is listed twice");
    if (file.header_bytes > file.size_bytes) {
      return DataLoss("file ", Quote(file.path), ": header of ", file.header_bytes, " bytes in a file of ",
                      file.size_bytes);
    }
    if (__builtin_add_overflow(total, file.size_bytes, &total) || total > kMaxBytes) {
      return DataLoss("file ", Quote(file.path), ": a size of ", file.size_bytes, " bytes overflows the total");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateMeta(const TensorMeta& meta) {
  if (!IsKnownDType(static_cast<int>(meta.dtype))) {
    return DataLoss("unknown element type number ", static_cast<int>(meta.dtype));
  }
  if (meta.role < Role::kParameter || meta.role > Role::kState) {
    return DataLoss("unknown role number ", static_cast<int>(meta.role));
  }
  if (meta.shape.size() > kMaxDimensions) {
    return DataLoss(meta.shape.size(), " dimensions, at most ", kMaxDimensions, " are allowed");
  }
  // An empty tensor's other dimensions count, too: nothing computed from a shape overflows later.
  Shape with_items = meta.shape;
  with_items.push_back(ItemSize(meta.dtype));
  if (!CheckedElements(with_items).has_value()) {
    return DataLoss("shape ", ShapeToString(meta.shape), " of ", DTypeName(meta.dtype), " overflows 64 bits");
  }
  if (meta.role != Role::kOptimizer && meta.optimizer != OptimizerField()) {
    return DataLoss("optimizer fields on a tensor that is not optimizer state");
  }
  return absl::OkStatus();
}

absl::Status ValidateChecksums(const ShardMeta& shard) {
  if (shard.chunk_crc32c.empty()) {
    if (shard.length_bytes == 0 || shard.hash == ContentHash()) return absl::OkStatus();
    return DataLoss("a content hash without chunk checksums");
  }
  const uint64_t chunks = shard.length_bytes / kChecksumChunkBytes + (shard.length_bytes % kChecksumChunkBytes != 0);
  if (shard.chunk_crc32c.size() == chunks) return absl::OkStatus();
  return DataLoss(shard.chunk_crc32c.size(), " chunk checksums, want ", chunks, " for ", shard.length_bytes, " bytes");
}

absl::Status ValidateShard(const ShardMeta& shard, const TensorMeta& meta, const std::vector<FileMeta>& files) {
  if (absl::Status status = ValidateBox(shard.box, meta.shape); !status.ok()) return DataLoss(status.message());
  const uint64_t want_bytes = meta.BytesOf(shard.box);
  if (shard.length_bytes != want_bytes) {
    return DataLoss("length of ", shard.length_bytes, " bytes, want ", want_bytes, " for box ", shard.box.ToString(),
                    " of ", DTypeName(meta.dtype));
  }
  if (shard.file >= files.size()) return DataLoss("file index ", shard.file, ", there are ", files.size(), " files");
  const FileMeta& file = files[shard.file];
  // Written without a sum, which could overflow.
  const bool behind_end =
      shard.length_bytes > file.size_bytes || shard.offset_bytes > file.size_bytes - shard.length_bytes;
  if (behind_end || (shard.length_bytes > 0 && shard.offset_bytes < file.header_bytes)) {
    return DataLoss("offset ", shard.offset_bytes, " and length ", shard.length_bytes, ": not in the data of ",
                    Quote(file.path), ", bytes ", file.header_bytes, " to ", file.size_bytes);
  }
  return ValidateChecksums(shard);
}

absl::Status ValidateTiling(const TensorEntry& tensor) {
  const Box whole = Box::Whole(tensor.meta.shape);
  if (tensor.shards.size() == 1 && tensor.shards[0].box == whole) return absl::OkStatus();
  std::vector<Box> boxes;
  boxes.reserve(tensor.shards.size());
  for (const ShardMeta& shard : tensor.shards) boxes.push_back(shard.box);
  if (absl::Status status = CheckTiling(whole, boxes); !status.ok()) return DataLoss(status.message());
  return absl::OkStatus();
}

// What only manifests of foreign checkpoints may hold.
absl::Status ValidateNative(const TensorEntry& tensor) {
  if (tensor.computed) return DataLoss("computed, which only tensors of foreign checkpoints are");
  if (tensor.meta.role == Role::kState) return DataLoss("state of the run, which only foreign checkpoints hold");
  if (!IsNativeDType(tensor.meta.dtype)) return DataLoss("type ", DTypeName(tensor.meta.dtype), " is not native");
  return absl::OkStatus();
}

absl::Status ValidateTensor(const TensorEntry& tensor, const std::vector<FileMeta>& files, ManifestKind kind) {
  SW_RETURN_IF_ERROR(ValidateMeta(tensor.meta));
  if (kind == ManifestKind::kNative) {
    SW_RETURN_IF_ERROR(ValidateNative(tensor));
  }
  if (tensor.computed) {
    if (tensor.shards.empty() && tensor.alias_of.empty()) return absl::OkStatus();
    return DataLoss("computed, with ", tensor.shards.size(), " shards or an alias");
  }
  if (!tensor.alias_of.empty()) {
    if (tensor.shards.empty()) return absl::OkStatus();
    return DataLoss("alias of ", Quote(tensor.alias_of), " with ", tensor.shards.size(), " shards of its own");
  }
  for (size_t i = 0; i < tensor.shards.size(); ++i) {
    SW_RETURN_IF_ERROR(ValidateShard(tensor.shards[i], tensor.meta, files)) << "shard " << i;
  }
  return ValidateTiling(tensor);
}

absl::Status ValidateAlias(const TensorEntry& alias, const std::vector<TensorEntry>& sorted) {
  const auto target =
      std::lower_bound(sorted.begin(), sorted.end(), alias.alias_of,
                       [](const TensorEntry& t, const std::string& name) { return t.meta.name < name; });
  if (target == sorted.end() || target->meta.name != alias.alias_of) {
    return DataLoss("alias of ", Quote(alias.alias_of), ", which is not there");
  }
  if (!target->alias_of.empty()) return DataLoss("alias of ", Quote(alias.alias_of), ", which is an alias itself");
  if (target->meta.shape != alias.meta.shape || target->meta.dtype != alias.meta.dtype) {
    return DataLoss("alias of ", Quote(alias.alias_of), ", a ", DTypeName(target->meta.dtype), " of shape ",
                    ShapeToString(target->meta.shape), ", itself a ", DTypeName(alias.meta.dtype), " of shape ",
                    ShapeToString(alias.meta.shape));
  }
  return absl::OkStatus();
}

absl::Status ValidateTensors(const ManifestData& data, ManifestKind kind) {
  const std::vector<TensorEntry>& tensors = data.tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].meta.name;
    if (name.empty()) return DataLoss("a tensor without a name");
    if (i > 0 && tensors[i - 1].meta.name == name) return DataLoss("tensor ", Quote(name), " is listed twice");
    SW_RETURN_IF_ERROR(ValidateTensor(tensors[i], data.files, kind)) << "tensor " << Quote(name);
    if (tensors[i].alias_of.empty()) continue;
    SW_RETURN_IF_ERROR(ValidateAlias(tensors[i], tensors)) << "tensor " << Quote(name);
  }
  return absl::OkStatus();
}

// Bytes of a file that belong to a tensor.
struct Extent {
  uint32_t file;
  uint32_t tensor;
  uint64_t begin;
  uint64_t end;
};

absl::Status ValidateExtents(const ManifestData& data) {
  std::vector<Extent> extents;
  extents.reserve(data.tensors.size());
  for (size_t i = 0; i < data.tensors.size(); ++i) {
    for (const ShardMeta& shard : data.tensors[i].shards) {
      if (shard.length_bytes == 0) continue;
      extents.push_back(
          {shard.file, static_cast<uint32_t>(i), shard.offset_bytes, shard.offset_bytes + shard.length_bytes});
    }
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::tie(a.file, a.begin) < std::tie(b.file, b.begin); });
  for (size_t i = 1; i < extents.size(); ++i) {
    const Extent& before = extents[i - 1];
    const Extent& extent = extents[i];
    if (extent.file != before.file || extent.begin >= before.end) continue;
    return DataLoss("tensors ", Quote(data.tensors[before.tensor].meta.name), " and ",
                    Quote(data.tensors[extent.tensor].meta.name), " overlap in file ",
                    Quote(data.files[extent.file].path), " at byte ", extent.begin);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateManifest(const ManifestData& data, ManifestKind kind) {
  SW_RETURN_IF_ERROR(ValidateVersions(data));
  SW_RETURN_IF_ERROR(ValidateRun(data));
  SW_RETURN_IF_ERROR(ValidateAllExtras(data));
  SW_RETURN_IF_ERROR(ValidateFiles(data.files));
  SW_RETURN_IF_ERROR(ValidateTensors(data, kind));
  return kind == ManifestKind::kNative ? ValidateExtents(data) : absl::OkStatus();
}

}  // namespace shardwright
