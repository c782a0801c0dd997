#include "shardwright/core/format/torch_zip/torch_zip.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/format/torch/saved_object.h"

namespace shardwright {
namespace {

constexpr size_t kTarMagicOffset = 257;
constexpr absl::string_view kTarMagic = "ustar";

absl::StatusOr<OpenedCheckpoint> OpenZip(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  return torch_format::OpenSavedObject(storage, facts.path, "torch_zip", {});
}

absl::StatusOr<OpenedCheckpoint> OpenLegacy(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  return torch_format::OpenSavedObject(storage, facts.path, "torch_legacy", {});
}

absl::StatusOr<OpenedCheckpoint> OpenTar(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  return absl::UnimplementedError(absl::StrCat(
      "reading ", facts.path, ": a tar archive, as torch wrote in 2016. Load it with torch and save it again"));
}

}  // namespace

CheckpointFormat TorchZipFormat() {
  return {"torch_zip", [](const PathFacts& facts) { return absl::StartsWith(facts.head, torch_format::kZipMagic); },
          &OpenZip};
}

CheckpointFormat TorchLegacyFormat() {
  return {"torch_legacy",
          [](const PathFacts& facts) { return absl::StartsWith(facts.head, torch_format::kLegacyMagic); }, &OpenLegacy};
}

CheckpointFormat TorchTarFormat() {
  return {"torch_tar",
          [](const PathFacts& facts) {
            return facts.head.size() > kTarMagicOffset &&
                   absl::StartsWith(absl::string_view(facts.head).substr(kTarMagicOffset), kTarMagic);
          },
          &OpenTar};
}

}  // namespace shardwright
