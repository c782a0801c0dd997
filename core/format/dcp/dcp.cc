#include "shardwright/core/format/dcp/dcp.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/dcp/dcp_items.h"
#include "shardwright/core/format/dcp/dcp_metadata.h"
#include "shardwright/core/format/dcp/dcp_names.h"
#include "shardwright/core/format/dcp/extras_tree.h"
#include "shardwright/core/format/pickle/machine.h"
#include "shardwright/core/format/torch/saved_object.h"

namespace shardwright {
namespace {

constexpr absl::string_view kMetadataFile = ".metadata";
constexpr absl::string_view kMetadataSuffix = ".metadata";
constexpr absl::string_view kLightningFile = "meta.pt";
constexpr absl::string_view kMegatronFile = "common.pt";

// "__3.metadata": what rank 3 wrote, without collectives.
bool IsRankMetadata(absl::string_view name) {
  return absl::StartsWith(name, "__") && absl::EndsWith(name, kMetadataSuffix);
}

bool Sniff(const PathFacts& facts) {
  return facts.is_directory && (facts.Has(kMetadataFile) || facts.Has("__0.metadata"));
}

absl::StatusOr<dcp::Metadata> ReadMetadata(Storage& storage, const PathFacts& facts) {
  std::vector<std::string> names;
  if (facts.Has(kMetadataFile)) {
    names.emplace_back(kMetadataFile);
  } else {
    for (const DirectoryEntry& entry : facts.entries) {
      if (IsRankMetadata(entry.name)) names.push_back(entry.name);
    }
  }
  dcp::Metadata metadata;
  for (const std::string& name : names) {
    SW_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(storage, JoinPath(facts.path, name), pickle::kMaxPickleBytes));
    SW_RETURN_IF_ERROR(dcp::ParseMetadata(std::move(bytes), metadata)) << name;
  }
  return metadata;
}

absl::Status AddTensor(CheckpointBuilder& builder, dcp::ItemReader& reader, const dcp::Metadata& metadata,
                       const std::string& name, TensorMeta meta) {
  const dcp::StoredTensor& tensor = metadata.tensors.at(name);
  std::vector<Piece> pieces;
  pieces.reserve(tensor.chunks.size());
  for (const Box& chunk : tensor.chunks) {
    const auto item = metadata.items.find({name, chunk.offset});
    if (item == metadata.items.end()) {
      return absl::DataLossError(absl::StrCat("nothing is stored for the chunk ", chunk.ToString()));
    }
    SW_ASSIGN_OR_RETURN(Piece piece, reader.ReadChunk(name, item->second, tensor.dtype, chunk));
    pieces.push_back(std::move(piece));
  }
  // Of computed tensors the manifest sees no boxes.
  if (absl::Status status = CheckTiling(Box::Whole(tensor.shape), tensor.chunks); !status.ok()) {
    return absl::DataLossError(status.message());
  }
  meta.name = builder.FreeName(meta.name);
  builder.AddTensor(std::move(meta), std::move(pieces));
  return absl::OkStatus();
}

absl::Status AddTensors(CheckpointBuilder& builder, dcp::ItemReader& reader, const dcp::Metadata& metadata,
                        bool lightning, dcp::ExtrasTree& extras) {
  for (auto& [name, meta] : dcp::NameTensors(metadata, lightning)) {
    if (meta.role == Role::kState) extras.Add(dcp::PathOf(metadata, name), TensorReference{meta.name});
    SW_RETURN_IF_ERROR(AddTensor(builder, reader, metadata, name, std::move(meta)))
        << "tensor \"" << absl::CHexEscape(name) << "\"";
  }
  return absl::OkStatus();
}

absl::Status AddValues(dcp::ItemReader& reader, const dcp::Metadata& metadata, dcp::ExtrasTree& extras) {
  for (const std::string& name : metadata.bytes) {
    const auto item = metadata.items.find({name, {}});
    if (item == metadata.items.end()) {
      return absl::DataLossError(absl::StrCat("nothing is stored for \"", absl::CHexEscape(name), "\""));
    }
    SW_ASSIGN_OR_RETURN(Value value, reader.ReadValue(item->second), _ << "value \"" << absl::CHexEscape(name) << "\"");
    extras.Add(dcp::PathOf(metadata, name), std::move(value));
  }
  return absl::OkStatus();
}

// A torch file beside the items, with what is common to all ranks. Its tensors are no weights.
absl::Status AddCommon(CheckpointBuilder& builder, absl::string_view name) {
  SW_ASSIGN_OR_RETURN(const torch_format::PlacedFile file, torch_format::OpenTorchFile(builder, name));
  SW_RETURN_IF_ERROR(torch_format::AddSavedObject(
      builder, file, {.name = [](const torch_format::FoundTensor&) { return std::nullopt; }}))
      << name;
  return absl::OkStatus();
}

void SetProgress(CheckpointBuilder& builder) {
  const auto count = [&](const std::string& key, int64_t& out) {
    const auto found = builder.extras().find(key);
    const int64_t* value = found == builder.extras().end() ? nullptr : found->second.get_if<int64_t>();
    if (value != nullptr && *value >= 0) out = *value;
  };
  count("global_step", builder.data().progress.step);
  count("epoch", builder.data().progress.epoch);
}

absl::StatusOr<OpenedCheckpoint> OpenFolder(Storage& storage, const PathFacts& facts) {
  const bool lightning = facts.Has(kLightningFile);
  SW_ASSIGN_OR_RETURN(const dcp::Metadata metadata, ReadMetadata(storage, facts));
  CheckpointBuilder builder(storage, facts.path);
  dcp::ItemReader reader(builder);
  dcp::ExtrasTree extras;
  SW_RETURN_IF_ERROR(AddTensors(builder, reader, metadata, lightning, extras));
  SW_RETURN_IF_ERROR(AddValues(reader, metadata, extras));
  builder.extras() = std::move(extras).Take();
  for (const absl::string_view common : {kLightningFile, kMegatronFile}) {
    if (!facts.Has(common)) continue;
    SW_RETURN_IF_ERROR(AddCommon(builder, common));
  }
  SetProgress(builder);
  return std::move(builder).Finish(lightning                    ? "lightning_distributed"
                                   : facts.Has("metadata.json") ? "megatron"
                                                                : "dcp");
}

absl::StatusOr<OpenedCheckpoint> Open(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  absl::StatusOr<OpenedCheckpoint> opened = OpenFolder(storage, facts);
  SW_RETURN_IF_ERROR(opened.status()) << "reading " << facts.path;
  return opened;
}

}  // namespace

CheckpointFormat DcpFormat() {
  return {"dcp", &Sniff, &Open};
}

}  // namespace shardwright
