#include "shardwright/core/format/lightning/lightning.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/torch/saved_object.h"

namespace shardwright {
namespace {

using torch_format::FoundTensor;

// Among the first keys of every such dict.
constexpr absl::string_view kVersionKey = "pytorch-lightning_version";
constexpr absl::string_view kWeightsKey = "state_dict";

bool Sniff(const PathFacts& facts) {
  const bool torch_file =
      absl::StartsWith(facts.head, torch_format::kZipMagic) || absl::StartsWith(facts.head, torch_format::kLegacyMagic);
  return torch_file && absl::StrContains(facts.head, kVersionKey);
}

std::optional<std::string> WeightNameOf(const FoundTensor& found) {
  if (found.path.size() < 2 || found.path[0] != kWeightsKey) return std::nullopt;
  return absl::StrJoin(found.path.begin() + 1, found.path.end(), ".");
}

// A count that the manifest can hold; others stay in the extras alone.
int64_t CountOf(const Value::Map& extras, const std::string& key) {
  const auto found = extras.find(key);
  const int64_t* count = found == extras.end() ? nullptr : found->second.get_if<int64_t>();
  return count == nullptr ? 0 : std::max<int64_t>(*count, 0);
}

absl::StatusOr<OpenedCheckpoint> Open(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  CheckpointBuilder builder(storage, ParentPath(facts.path));
  SW_ASSIGN_OR_RETURN(const torch_format::PlacedFile file, torch_format::OpenTorchFile(builder, BaseName(facts.path)));
  builder.data().layout = SaveLayout::kSingleFile;
  SW_RETURN_IF_ERROR(torch_format::AddSavedObject(builder, file, {.name = &WeightNameOf})) << "reading " << facts.path;
  builder.data().progress.step = CountOf(builder.extras(), "global_step");
  builder.data().progress.epoch = CountOf(builder.extras(), "epoch");
  absl::StatusOr<OpenedCheckpoint> opened = std::move(builder).Finish("lightning");
  SW_RETURN_IF_ERROR(opened.status()) << "reading " << facts.path;
  return opened;
}

}  // namespace

CheckpointFormat LightningFormat() {
  return {"lightning", &Sniff, &Open};
}

}  // namespace shardwright
