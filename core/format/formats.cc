#include "shardwright/core/format/formats.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/dcp/dcp.h"
#include "shardwright/core/format/deepspeed/deepspeed.h"
#include "shardwright/core/format/huggingface/huggingface.h"
#include "shardwright/core/format/lightning/lightning.h"
#include "shardwright/core/format/native/native_format.h"
#include "shardwright/core/format/per_rank/per_rank.h"
#include "shardwright/core/format/safetensors/safetensors.h"
#include "shardwright/core/format/torch_zip/torch_zip.h"

namespace shardwright {
namespace {

std::pair<std::string, CheckpointFormat> Row(const CheckpointFormat& format) {
  return {std::string(format.name), format};
}

// What a user may have meant by a path that is no checkpoint.
std::string Describe(const PathFacts& facts) {
  if (facts.is_directory) {
    if (facts.entries.empty()) return "an empty folder";
    if (facts.Has(".metadata.tmp")) return "a distributed checkpoint whose save never finished";
    if (facts.Has("manifest.ocdbt") || facts.Has("_CHECKPOINT_METADATA"))
      return "an Orbax checkpoint, which is not read";
    return absl::StrCat(
        "a folder without the files of any known format (its first: ", absl::CHexEscape(facts.entries[0].name), ")");
  }
  if (facts.size_bytes == 0) return "an empty file";
  if (absl::StartsWith(facts.head, "version https://git-lfs")) {
    return "a Git LFS pointer, not the file itself: run git lfs pull";
  }
  if (absl::StartsWith(facts.head, "|TZR|")) return "a tensorizer file, which is not read";
  return absl::StrCat("a file that begins with \"", absl::CHexEscape(facts.head.substr(0, 8)), "\"");
}

}  // namespace

const FormatTable& Formats() {
  static const auto* const kFormats = new FormatTable(
      "format", {Row(NativeFormat()), Row(DcpFormat()), Row(DeepSpeedUniversalFormat()), Row(DeepSpeedFormat()),
                 Row(HuggingFaceFormat()), Row(DcpHuggingFaceFormat()), Row(PerRankFormat()), Row(LightningFormat()),
                 Row(TorchZipFormat()), Row(TorchLegacyFormat()), Row(TorchTarFormat()), Row(SafetensorsFormat())});
  return *kFormats;
}

absl::StatusOr<OpenedCheckpoint> OpenAnyCheckpoint(Storage& storage, absl::string_view path, const OpenOptions& options,
                                                   const FormatTable& formats) {
  SW_ASSIGN_OR_RETURN(const PathFacts facts, LookAt(storage, path));
  for (const auto& [name, format] : formats.rows()) {
    if (format.sniff(facts)) return format.open(storage, facts, options);
  }
  return absl::InvalidArgumentError(absl::StrCat("opening checkpoint ", path, ": ", Describe(facts),
                                                 " (known formats: ", absl::StrJoin(formats.Names(), ", "), ")"));
}

}  // namespace shardwright
