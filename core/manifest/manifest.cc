#include "shardwright/core/manifest/manifest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/manifest/validate.h"

namespace shardwright {

absl::string_view SaveLayoutName(SaveLayout layout) {
  switch (layout) {
    case SaveLayout::kSharded:
      return "sharded";
    case SaveLayout::kSingleFile:
      return "single_file";
  }
  return "invalid";
}

absl::StatusOr<SaveLayout> ParseSaveLayout(absl::string_view name) {
  for (SaveLayout layout : {SaveLayout::kSharded, SaveLayout::kSingleFile}) {
    if (SaveLayoutName(layout) == name) return layout;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown layout \"", absl::CHexEscape(name), "\" (known: sharded, single_file)"));
}

absl::StatusOr<std::shared_ptr<const Manifest>> Manifest::Create(ManifestData data, ManifestKind kind) {
  const auto by_name = [](const TensorEntry& a, const TensorEntry& b) { return a.meta.name < b.meta.name; };
  if (!std::is_sorted(data.tensors.begin(), data.tensors.end(), by_name)) {
    std::stable_sort(data.tensors.begin(), data.tensors.end(), by_name);
  }
  SW_RETURN_IF_ERROR(ValidateManifest(data, kind));
  return std::shared_ptr<const Manifest>(new Manifest(std::move(data), kind));
}

Manifest::Manifest(ManifestData data, ManifestKind kind) : data_(std::move(data)), kind_(kind) {
  by_name_.reserve(data_.tensors.size());
  for (size_t i = 0; i < data_.tensors.size(); ++i) by_name_.emplace(data_.tensors[i].meta.name, i);
}

const TensorEntry* Manifest::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &data_.tensors[found->second];
}

const TensorEntry& Manifest::Resolve(const TensorEntry& entry) const {
  if (entry.alias_of.empty()) return entry;
  const TensorEntry* target = Find(entry.alias_of);
  SW_CHECK(target != nullptr);
  return *target;
}

uint64_t Manifest::TotalBytes() const {
  uint64_t total = 0;
  for (const TensorEntry& tensor : data_.tensors) {
    for (const ShardMeta& shard : tensor.shards) total += shard.length_bytes;
  }
  return total;
}

}  // namespace shardwright
