// shard-<rank>-model-<i>-of-<n>.safetensors, each with {"<name>": {"saved_offsets": [...]}} in its metadata.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "shardwright/core/base/checked_math.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/dcp/dcp.h"
#include "shardwright/core/format/safetensors/safetensors.h"

namespace shardwright {
namespace {

constexpr absl::string_view kShardingKey = "DCP_SHARDING_INFO";
constexpr absl::string_view kOffsetsKey = "saved_offsets";

bool IsShardName(absl::string_view name) {
  return absl::StartsWith(name, "shard-") && absl::EndsWith(name, ".safetensors");
}

bool Sniff(const PathFacts& facts) {
  return facts.is_directory && std::any_of(facts.entries.begin(), facts.entries.end(),
                                           [](const DirectoryEntry& entry) { return IsShardName(entry.name); });
}

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(kShardingKey, ": ", what));
}

// Offsets of a file's chunks, by tensor.
absl::StatusOr<std::map<std::string, std::vector<int64_t>>> ParseOffsets(
    const std::map<std::string, std::string>& metadata) {
  std::map<std::string, std::vector<int64_t>> offsets;
  const auto text = metadata.find(std::string(kShardingKey));
  if (text == metadata.end()) return offsets;
  const nlohmann::json json = nlohmann::json::parse(text->second, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Malformed("no JSON object");
  for (const auto& [name, info] : json.items()) {
    if (!info.is_object() || !info.contains(kOffsetsKey) || !info[kOffsetsKey.data()].is_array()) {
      return Malformed("an entry without saved_offsets");
    }
    std::vector<int64_t>& parsed = offsets[name];
    for (const nlohmann::json& number : info[kOffsetsKey.data()]) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX)
        return Malformed("an offset that is no index");
      parsed.push_back(static_cast<int64_t>(number.get<uint64_t>()));
    }
  }
  return offsets;
}

struct Collected {
  DType dtype = DType::kInvalid;
  Shape shape;  // what the chunks reach
  std::vector<Piece> pieces;
};

absl::Status Collect(const safetensors::OpenedFile& file, const safetensors::Entry& entry, std::vector<int64_t> offset,
                     Collected& tensor) {
  if (offset.empty()) offset.resize(entry.shape.size(), 0);
  if (tensor.dtype == DType::kInvalid) {
    tensor.dtype = entry.dtype;
    tensor.shape.resize(entry.shape.size(), 0);
  }
  if (tensor.dtype != entry.dtype || tensor.shape.size() != entry.shape.size() || offset.size() != entry.shape.size()) {
    return absl::DataLossError("chunks of different types or ranks");
  }
  for (size_t d = 0; d < offset.size(); ++d) {
    const auto end = CheckedAdd(offset[d], entry.shape[d]);
    if (!end.has_value()) return absl::DataLossError("an offset that overflows");
    tensor.shape[d] = std::max(tensor.shape[d], *end);
  }
  Box box{std::move(offset), entry.shape};
  if (!box.empty()) tensor.pieces.push_back(safetensors::PieceOf(file, entry, std::move(box)));
  return absl::OkStatus();
}

absl::StatusOr<OpenedCheckpoint> OpenFolder(Storage& storage, const PathFacts& facts) {
  CheckpointBuilder builder(storage, facts.path);
  std::map<std::string, Collected> tensors;
  for (const DirectoryEntry& shard : facts.entries) {
    if (!IsShardName(shard.name)) continue;
    SW_ASSIGN_OR_RETURN(const safetensors::OpenedFile file, safetensors::OpenFile(builder, shard.name));
    SW_ASSIGN_OR_RETURN(const auto offsets, ParseOffsets(file.opened.header.metadata), _ << shard.name);
    for (const safetensors::Entry& entry : file.opened.header.entries) {
      const auto offset = offsets.find(entry.name);
      SW_RETURN_IF_ERROR(
          Collect(file, entry, offset == offsets.end() ? std::vector<int64_t>() : offset->second, tensors[entry.name]))
          << "tensor \"" << absl::CHexEscape(entry.name) << "\" in " << shard.name;
    }
  }
  for (auto& [name, tensor] : tensors) {
    builder.AddTensor(safetensors::WeightMeta(name, tensor.dtype, tensor.shape), std::move(tensor.pieces));
  }
  return std::move(builder).Finish("dcp_huggingface");
}

absl::StatusOr<OpenedCheckpoint> Open(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  absl::StatusOr<OpenedCheckpoint> opened = OpenFolder(storage, facts);
  SW_RETURN_IF_ERROR(opened.status()) << "reading " << facts.path;
  return opened;
}

}  // namespace

CheckpointFormat DcpHuggingFaceFormat() {
  return {"dcp_huggingface", &Sniff, &Open};
}

}  // namespace shardwright
