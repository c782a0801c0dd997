#include "shardwright/core/format/huggingface/huggingface.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/huggingface/index.h"
#include "shardwright/core/format/safetensors/safetensors.h"
#include "shardwright/core/format/torch/object_walk.h"
#include "shardwright/core/format/torch/torch_pieces.h"

namespace shardwright {
namespace {

constexpr absl::string_view kSafetensorsIndexSuffix = ".safetensors.index.json";
constexpr absl::string_view kBinIndexSuffix = ".bin.index.json";
constexpr absl::string_view kSafetensorsFile = "model.safetensors";
constexpr absl::string_view kBinFile = "pytorch_model.bin";
constexpr uint64_t kMaxIndexBytes = 256 << 20;

std::string Quote(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)), "\"");
}

// The names that a file holds, and their pieces.
using Contents = std::map<std::string, std::pair<TensorMeta, Piece>>;

absl::StatusOr<Contents> ReadSafetensors(CheckpointBuilder& builder, const std::string& name) {
  SW_ASSIGN_OR_RETURN(const safetensors::OpenedFile file, safetensors::OpenFile(builder, name));
  Contents contents;
  for (const safetensors::Entry& entry : file.opened.header.entries) {
    contents.emplace(entry.name, std::make_pair(safetensors::WeightMeta(entry.name, entry.dtype, entry.shape),
                                                safetensors::PieceOf(file, entry, Box::Whole(entry.shape))));
  }
  for (const auto& [key, value] : file.opened.header.metadata) builder.extras().emplace(key, value);
  return contents;
}

absl::StatusOr<Contents> ReadTorch(CheckpointBuilder& builder, const std::string& name) {
  SW_ASSIGN_OR_RETURN(const torch_format::PlacedFile file, torch_format::OpenTorchFile(builder, name));
  SW_ASSIGN_OR_RETURN(const torch_format::TensorsByNode tensors, torch_format::FindTensors(file.torch));
  SW_ASSIGN_OR_RETURN(const std::vector<torch_format::FoundTensor> found,
                      torch_format::WalkTensors(file.torch.graph, file.torch.graph.root(), tensors));
  Contents contents;
  for (const torch_format::FoundTensor& tensor : found) {
    // A state dict is flat.
    if (tensor.path.size() != 1) continue;
    const torch_format::TorchTensor& view = tensors.at(tensor.node);
    contents.emplace(tensor.path[0], std::make_pair(safetensors::WeightMeta(tensor.path[0], view.dtype, view.shape),
                                                    torch_format::PieceOf(file, view, Box::Whole(view.shape))));
  }
  return contents;
}

absl::StatusOr<Contents> ReadContents(CheckpointBuilder& builder, const std::string& name) {
  std::string magic;
  {
    SW_ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file,
                        builder.storage().OpenRead(JoinPath(builder.directory(), name)));
    magic.resize(std::min<uint64_t>(file->size_bytes(), 16));
    SW_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(magic)));
  }
  const bool torch_file =
      absl::StartsWith(magic, torch_format::kZipMagic) || absl::StartsWith(magic, torch_format::kLegacyMagic);
  return torch_file ? ReadTorch(builder, name) : ReadSafetensors(builder, name);
}

// Adds what the index maps to one file; every name of it must be there.
absl::Status AddShard(CheckpointBuilder& builder, const std::string& file, const std::vector<std::string>& names,
                      uint64_t& total_bytes) {
  absl::StatusOr<Contents> contents = ReadContents(builder, file);
  if (absl::IsNotFound(contents.status())) {
    return absl::DataLossError(absl::StrCat("the index names ", Quote(file), ", which is not there"));
  }
  SW_RETURN_IF_ERROR(contents.status());
  for (const std::string& name : names) {
    const auto found = contents->find(name);
    if (found == contents->end()) {
      return absl::DataLossError(
          absl::StrCat("the index maps tensor ", Quote(name), " to ", Quote(file), ", which lacks it"));
    }
    total_bytes += static_cast<uint64_t>(found->second.first.bytes());
    builder.AddTensor(std::move(found->second.first), {std::move(found->second.second)});
    contents->erase(found);
  }
  for (const auto& [name, tensor] : *contents) {
    builder.AddNote(absl::StrCat("left out: tensor ", Quote(name), " of ", Quote(file), " is not in the index"));
  }
  return absl::OkStatus();
}

absl::Status AddIndexed(CheckpointBuilder& builder, const std::string& index_name) {
  SW_ASSIGN_OR_RETURN(const std::string json,
                      ReadWholeFile(builder.storage(), JoinPath(builder.directory(), index_name), kMaxIndexBytes));
  SW_ASSIGN_OR_RETURN(const huggingface::Index index, huggingface::ParseIndex(json), _ << Quote(index_name));
  std::map<std::string, std::vector<std::string>> by_file;
  for (const auto& [tensor, file] : index.weight_map) by_file[file].push_back(tensor);
  uint64_t total_bytes = 0;
  for (const auto& [file, names] : by_file) SW_RETURN_IF_ERROR(AddShard(builder, file, names, total_bytes));
  if (index.total_size.has_value() && *index.total_size != total_bytes) {
    builder.AddNote(
        absl::StrCat("the index says that the tensors have ", *index.total_size, " bytes, they have ", total_bytes));
  }
  for (const auto& [key, value] : index.metadata) builder.extras().insert_or_assign(key, value);
  return absl::OkStatus();
}

absl::Status AddAlone(CheckpointBuilder& builder, const std::string& name) {
  SW_ASSIGN_OR_RETURN(Contents contents, ReadContents(builder, name));
  for (auto& [tensor, content] : contents) builder.AddTensor(std::move(content.first), {std::move(content.second)});
  return absl::OkStatus();
}

// Index or only file of a folder; safetensors before pickles. Empty: there is none.
std::string EntryFile(const PathFacts& facts) {
  for (const absl::string_view suffix : {kSafetensorsIndexSuffix, kBinIndexSuffix}) {
    for (const DirectoryEntry& entry : facts.entries) {
      if (absl::EndsWith(entry.name, suffix)) return entry.name;
    }
  }
  for (const absl::string_view name : {kSafetensorsFile, kBinFile}) {
    if (facts.Has(name)) return std::string(name);
  }
  return "";
}

bool IsIndexName(absl::string_view name) {
  return absl::EndsWith(name, kSafetensorsIndexSuffix) || absl::EndsWith(name, kBinIndexSuffix);
}

bool Sniff(const PathFacts& facts) {
  if (facts.is_directory) return !EntryFile(facts).empty();
  return IsIndexName(facts.path) && absl::StartsWith(absl::StripLeadingAsciiWhitespace(facts.head), "{");
}

void NoteOthers(const PathFacts& facts, CheckpointBuilder& builder) {
  for (const DirectoryEntry& entry : facts.entries) {
    const bool other = absl::StartsWith(entry.name, "optimizer") || absl::StartsWith(entry.name, "scheduler") ||
                       absl::StartsWith(entry.name, "random_states") || absl::StartsWith(entry.name, "rng_state") ||
                       absl::StartsWith(entry.name, "custom_checkpoint") ||
                       absl::StartsWith(entry.name, "training_args");
    if (other) builder.AddNote(absl::StrCat("beside the weights, not read: ", absl::CHexEscape(entry.name)));
  }
}

absl::StatusOr<OpenedCheckpoint> Open(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  CheckpointBuilder builder(storage, facts.is_directory ? facts.path : ParentPath(facts.path));
  const std::string entry = facts.is_directory ? EntryFile(facts) : BaseName(facts.path);
  builder.data().layout = SaveLayout::kSingleFile;
  SW_RETURN_IF_ERROR(IsIndexName(entry) ? AddIndexed(builder, entry) : AddAlone(builder, entry))
      << "reading " << facts.path;
  NoteOthers(facts, builder);
  absl::StatusOr<OpenedCheckpoint> opened = std::move(builder).Finish("huggingface");
  SW_RETURN_IF_ERROR(opened.status()) << "reading " << facts.path;
  return opened;
}

}  // namespace

CheckpointFormat HuggingFaceFormat() {
  return {"huggingface", &Sniff, &Open};
}

}  // namespace shardwright
