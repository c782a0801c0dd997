#include "shardwright/core/format/per_rank/per_rank.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/per_rank/distributed_tensor.h"
#include "shardwright/core/format/torch/extras.h"
#include "shardwright/core/format/torch/naming.h"
#include "shardwright/core/format/torch/object_walk.h"

namespace shardwright {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::NodeId;

constexpr absl::string_view kSuffix = ".pt";
constexpr absl::string_view kRankMark = "rank_";

// "model_world_size_2_rank_1.pt": what comes before the rank, and the rank.
struct RankName {
  std::string stem;
  int rank = 0;
};

std::optional<RankName> ParseName(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, kSuffix)) return std::nullopt;
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  RankName parsed;
  if (digits == name.size() || !absl::EndsWith(name.substr(0, digits), kRankMark) ||
      !absl::SimpleAtoi(name.substr(digits), &parsed.rank)) {
    return std::nullopt;
  }
  parsed.stem = std::string(name.substr(0, digits));
  return parsed;
}

// A single file is one of these only if it says so: a plain file may have such a name, too.
bool Sniff(const PathFacts& facts) {
  if (!facts.is_directory) {
    return ParseName(BaseName(facts.path)).has_value() && absl::StrContains(facts.head, "_rebuild_wrapper_subclass");
  }
  for (const DirectoryEntry& entry : facts.entries) {
    const std::optional<RankName> name = ParseName(entry.name);
    if (name.has_value() && name->rank == 0) return true;
  }
  return false;
}

// The files of one save, by rank.
absl::StatusOr<std::vector<std::string>> FindFiles(Storage& storage, const PathFacts& facts) {
  std::vector<DirectoryEntry> entries = facts.entries;
  if (!facts.is_directory) {
    SW_ASSIGN_OR_RETURN(entries, storage.List(ParentPath(facts.path)));
  }
  std::map<std::string, std::map<int, std::string>> sets;
  for (const DirectoryEntry& entry : entries) {
    if (const std::optional<RankName> name = ParseName(entry.name)) sets[name->stem][name->rank] = entry.name;
  }
  std::string stem = sets.begin()->first;
  if (!facts.is_directory) {
    stem = ParseName(BaseName(facts.path))->stem;
  } else if (sets.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("the folder holds the files of ", sets.size(),
                                                   " saves: name one of the files, as ", absl::CHexEscape(stem),
                                                   "0.pt"));
  }
  std::vector<std::string> files;
  for (const auto& [rank, name] : sets[stem]) {
    if (rank != static_cast<int>(files.size())) {
      return absl::DataLossError(absl::StrCat("the file of rank ", files.size(), " is missing"));
    }
    files.push_back(name);
  }
  return files;
}

struct Collected {
  TensorMeta meta;
  bool done = false;  // whole, by a file before
  std::vector<Piece> pieces;
};

class Collector {
 public:
  explicit Collector(CheckpointBuilder& builder) : builder_(builder) {}

  // Adds what a rank's file holds: parts of distributed tensors, and tensors that each rank has whole, of the first.
  absl::Status AddFile(const std::string& name, bool first) {
    SW_ASSIGN_OR_RETURN(const torch_format::PlacedFile file, torch_format::OpenTorchFile(builder_, name));
    const Graph& graph = file.torch.graph;
    if (graph.kind(graph.root()) != Kind::kDict) return absl::DataLossError("no dict of tensors");
    const absl::Span<const NodeId> pairs = graph.items(graph.root());
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string key = torch_format::KeyText(graph, pairs[i]);
      absl::Status status = per_rank::IsDistributed(graph, pairs[i + 1]) ? AddParts(file, key, pairs[i + 1])
                            : first                                      ? AddPlain(file, key, pairs[i + 1])
                                                                         : absl::OkStatus();
      SW_RETURN_IF_ERROR(status) << "\"" << absl::CHexEscape(key) << "\"";
    }
    return absl::OkStatus();
  }

  void Finish() {
    for (auto& [name, tensor] : tensors_) builder_.AddTensor(std::move(tensor.meta), std::move(tensor.pieces));
  }

 private:
  Collected& At(const std::string& name, DType dtype, const Shape& shape) {
    const auto [place, is_new] = tensors_.try_emplace(name);
    if (is_new) {
      place->second.meta.name = name;
      place->second.meta.dtype = dtype;
      place->second.meta.shape = shape;
      place->second.meta.role = torch_format::GuessRole(name, dtype);
      place->second.meta.trainable = place->second.meta.role == Role::kParameter;
    }
    if (place->second.meta.dtype == DType::kInvalid) place->second.meta.dtype = dtype;
    return place->second;
  }

  absl::Status AddParts(const torch_format::PlacedFile& file, const std::string& name, NodeId node) {
    SW_ASSIGN_OR_RETURN(per_rank::RankTensor part, per_rank::ParseDistributed(file.torch, node));
    Collected& tensor = At(name, part.dtype, part.shape);
    const bool same_type = part.dtype == DType::kInvalid || part.dtype == tensor.meta.dtype;
    if (!same_type || part.shape != tensor.meta.shape)
      return absl::DataLossError("ranks do not agree on type and size");
    if (tensor.done) return absl::OkStatus();
    tensor.done = part.replicated;
    for (per_rank::Part& piece : part.parts) {
      tensor.pieces.push_back(torch_format::PieceOf(file, piece.tensor, std::move(piece.box)));
    }
    return absl::OkStatus();
  }

  absl::Status AddPlain(const torch_format::PlacedFile& file, const std::string& name, NodeId node) {
    SW_ASSIGN_OR_RETURN(const std::optional<torch_format::TorchTensor> plain, torch_format::AsTensor(file.torch, node));
    if (!plain.has_value()) {
      builder_.extras().insert_or_assign(name, torch_format::ToValue(file.torch.graph, node, {}));
      return absl::OkStatus();
    }
    Collected& tensor = At(name, plain->dtype, plain->shape);
    tensor.done = true;
    tensor.pieces = {torch_format::PieceOf(file, *plain, Box::Whole(plain->shape))};
    return absl::OkStatus();
  }

  CheckpointBuilder& builder_;
  std::map<std::string, Collected> tensors_;
};

absl::StatusOr<OpenedCheckpoint> OpenFiles(Storage& storage, const PathFacts& facts) {
  SW_ASSIGN_OR_RETURN(const std::vector<std::string> files, FindFiles(storage, facts));
  CheckpointBuilder builder(storage, facts.is_directory ? facts.path : ParentPath(facts.path));
  Collector collector(builder);
  for (size_t rank = 0; rank < files.size(); ++rank) {
    SW_RETURN_IF_ERROR(collector.AddFile(files[rank], rank == 0)) << files[rank];
  }
  collector.Finish();
  builder.data().topology.world_size = static_cast<int32_t>(files.size());
  return std::move(builder).Finish("per_rank");
}

absl::StatusOr<OpenedCheckpoint> Open(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  absl::StatusOr<OpenedCheckpoint> opened = OpenFiles(storage, facts);
  SW_RETURN_IF_ERROR(opened.status()) << "reading " << facts.path;
  return opened;
}

}  // namespace

CheckpointFormat PerRankFormat() {
  return {"per_rank", &Sniff, &Open};
}

}  // namespace shardwright
