#include "shardwright/core/format/native/native.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/safetensors/json_text.h"
#include "shardwright/core/manifest/codec.h"
#include "shardwright/core/manifest/frame.h"

namespace shardwright {
namespace {

constexpr absl::string_view kStepPrefix = "step-";
constexpr absl::string_view kTemporaryPrefix = ".tmp-";
// Widely used loaders refuse a file whose metadata lacks this.
constexpr absl::string_view kFormatKey = "format";
constexpr absl::string_view kFormatValue = "pt";
constexpr absl::string_view kBoxesKey = "shardwright.boxes";

// Why there is no manifest: no directory, or a save that was cut off.
absl::Status MissingManifestError(Storage& storage, absl::string_view directory) {
  if (!Exists(storage, directory)) {
    return absl::NotFoundError(absl::StrCat("opening checkpoint ", directory, ": there is no such directory"));
  }
  return absl::FailedPreconditionError(absl::StrCat("opening checkpoint ", directory, ": it has no ", kManifestFileName,
                                                    ": an unfinished save, or not a checkpoint"));
}

absl::StatusOr<std::string> ReadManifestFile(Storage& storage, absl::string_view path) {
  SW_ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, storage.OpenRead(path));
  if (file->size_bytes() > kFrameHeadBytes + kMaxMessageBytes) {
    return absl::DataLossError(absl::StrCat("manifest of ", file->size_bytes(), " bytes: at most ",
                                            kFrameHeadBytes + kMaxMessageBytes, " are possible"));
  }
  std::string bytes(file->size_bytes(), '\0');
  SW_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(bytes)));
  return bytes;
}

// Shards do not overlap and lie behind the header, so that their lengths tell whether they cover all the rest.
absl::Status CheckCoverage(const Manifest& manifest) {
  std::vector<uint64_t> covered;
  for (const FileMeta& file : manifest.files()) covered.push_back(file.header_bytes);
  for (const TensorEntry& tensor : manifest.tensors()) {
    for (const ShardMeta& shard : tensor.shards) covered[shard.file] += shard.length_bytes;
  }
  for (size_t i = 0; i < covered.size(); ++i) {
    const FileMeta& file = manifest.files()[i];
    if (covered[i] == file.size_bytes) continue;
    return absl::DataLossError(absl::StrCat("file \"", absl::CHexEscape(file.path), "\": header and shards cover ",
                                            covered[i], " of its ", file.size_bytes, " bytes"));
  }
  return absl::OkStatus();
}

std::string JsonList(const std::vector<int64_t>& numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ","), "]");
}

void AppendBox(const std::string& key, const TensorMeta& meta, const Box& box, std::string& json) {
  json += json.empty() ? '{' : ',';
  safetensors::AppendJsonString(key, json);
  json += ":{\"tensor\":";
  safetensors::AppendJsonString(meta.name, json);
  absl::StrAppend(&json, ",\"shape\":", JsonList(meta.shape), ",\"offset\":", JsonList(box.offset), "}");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Manifest>> OpenManifest(Storage& storage, absl::string_view directory) {
  const std::string path = JoinPath(directory, kManifestFileName);
  const absl::StatusOr<std::string> bytes = ReadManifestFile(storage, path);
  if (absl::IsNotFound(bytes.status())) return MissingManifestError(storage, directory);
  SW_RETURN_IF_ERROR(bytes.status()) << "opening checkpoint " << directory;
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const Manifest> manifest, DecodeManifest(*bytes), _ << "reading " << path);
  SW_RETURN_IF_ERROR(CheckCoverage(*manifest)) << "reading " << path;
  return manifest;
}

// Memory pages: a copy between pages that lie alike is faster than one that is shifted.
constexpr uint64_t kDataAlignmentBytes = 4096;

absl::StatusOr<std::string> NativeFileHeader(const SavePlan& plan, const PlannedFile& file) {
  safetensors::Header header;
  header.metadata.emplace(kFormatKey, kFormatValue);
  header.entries.reserve(file.entries.size());
  std::string boxes;
  for (const FileEntry& planned : file.entries) {
    const TensorMeta& meta = plan.tensors[planned.tensor].meta;
    const std::string key = FileKey(meta, planned.box);
    header.entries.push_back({key, meta.dtype, planned.box.size, planned.data_offset_bytes,
                              planned.data_offset_bytes + planned.length_bytes});
    if (!planned.box.IsWhole(meta.shape)) AppendBox(key, meta, planned.box, boxes);
  }
  if (!boxes.empty()) header.metadata.emplace(kBoxesKey, boxes + "}");
  SW_ASSIGN_OR_RETURN(std::string bytes, safetensors::EncodeHeader(header, kDataAlignmentBytes),
                      _ << "planning file " << file.path);
  return bytes;
}

std::string StepDirectoryName(int64_t step, int32_t version) {
  std::string name = absl::StrFormat("%s%08d", kStepPrefix, step);
  if (version > 0) absl::StrAppend(&name, "-v", version);
  return name;
}

std::optional<StepDirectory> ParseStepDirectoryName(absl::string_view name) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, kStepPrefix)) return std::nullopt;
  StepDirectory directory;
  const size_t dash = rest.find("-v");
  if (dash != absl::string_view::npos && !absl::SimpleAtoi(rest.substr(dash + 2), &directory.version)) {
    return std::nullopt;
  }
  if (!absl::SimpleAtoi(rest.substr(0, dash), &directory.step) || directory.step < 0) return std::nullopt;
  // Only the name that we would give: no sign, blank or zero too many.
  if (StepDirectoryName(directory.step, directory.version) != name) return std::nullopt;
  return directory;
}

std::string TemporaryDirectoryName(absl::string_view name, absl::string_view nonce) {
  return absl::StrCat(kTemporaryPrefix, name, "-", nonce);
}

bool IsTemporaryName(absl::string_view name) {
  return name.size() > kTemporaryPrefix.size() && absl::StartsWith(name, kTemporaryPrefix);
}

}  // namespace shardwright
