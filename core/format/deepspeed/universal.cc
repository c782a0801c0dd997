// The universal form: a file per parameter and slot.
//
//   latest_universal
//   <tag>/zero/<parameter>/fp32.pt exp_avg.pt exp_avg_sq.pt step.pt
//   <tag>/*_model_states.pt
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/deepspeed/deepspeed.h"
#include "shardwright/core/format/deepspeed/deepspeed_files.h"
#include "shardwright/core/format/deepspeed/model_parts.h"
#include "shardwright/core/format/deepspeed/zero_assembly.h"
#include "shardwright/core/format/deepspeed/zero_state.h"
#include "shardwright/core/format/torch/torch_pieces.h"

namespace shardwright {
namespace {

constexpr absl::string_view kLatestFile = "latest_universal";
constexpr absl::string_view kParametersFolder = "zero";
constexpr absl::string_view kMasterSlot = "fp32";
constexpr absl::string_view kSuffix = ".pt";

bool Sniff(const PathFacts& facts) {
  if (!facts.is_directory) return false;
  const bool has_folder = std::any_of(facts.entries.begin(), facts.entries.end(), [](const DirectoryEntry& entry) {
    return entry.name == kParametersFolder && entry.type == FileType::kDirectory;
  });
  return facts.Has(kLatestFile) || (has_folder && facts.HasSuffix("_model_states.pt"));
}

// The tensor of a file: bare, or under "param" in a dict.
absl::StatusOr<torch_format::TorchTensor> FindTensor(const torch_format::PlacedFile& file) {
  const pickle::Graph& graph = file.torch.graph;
  const pickle::NodeId inner = graph.Get(graph.root(), "param");
  SW_ASSIGN_OR_RETURN(std::optional<torch_format::TorchTensor> tensor,
                      torch_format::AsTensor(file.torch, inner == pickle::kNoNode ? graph.root() : inner));
  if (!tensor.has_value()) return absl::DataLossError("the file holds no tensor");
  return *std::move(tensor);
}

// Stage 3 leaves its tensors flat; the shapes are in the model file.
std::vector<Piece> ShapedPieces(const torch_format::PlacedFile& file, const torch_format::TorchTensor& tensor,
                                const Shape* shape, TensorMeta& meta) {
  Piece piece = torch_format::PieceOf(file, tensor, Box::Whole(tensor.shape));
  meta.shape = tensor.shape;
  const bool flat = shape != nullptr && tensor.shape.size() == 1 && *shape != tensor.shape &&
                    Box::Whole(*shape).elements() == tensor.shape[0] &&
                    torch_format::IsDense(tensor.shape, tensor.stride);
  if (!flat) return {std::move(piece)};
  meta.shape = *shape;
  return torch_format::FlatPieces(piece, 0, tensor.shape[0], *shape, 0);
}

absl::Status AddFile(CheckpointBuilder& builder, const std::string& path, const std::string& parameter,
                     const std::string& slot, const Shape* shape) {
  SW_ASSIGN_OR_RETURN(const torch_format::PlacedFile file, torch_format::OpenTorchFile(builder, path));
  SW_ASSIGN_OR_RETURN(const torch_format::TorchTensor tensor, FindTensor(file), _ << path);
  TensorMeta meta;
  meta.dtype = tensor.dtype;
  std::vector<Piece> pieces = ShapedPieces(file, tensor, shape, meta);
  if (slot == kMasterSlot) {
    meta.name = parameter;
  } else {
    meta.role = Role::kOptimizer;
    meta.optimizer = {0, parameter, slot};
    meta.name = OptimizerTensorName(meta.optimizer);
  }
  builder.AddTensor(std::move(meta), std::move(pieces));
  return absl::OkStatus();
}

std::map<std::string, Shape> ShapesOf(const std::vector<deepspeed::ModelState>& models) {
  std::map<std::string, Shape> shapes;
  if (models.empty()) return shapes;
  for (const std::vector<deepspeed::Parameter>& group : models[0].groups) {
    for (const deepspeed::Parameter& parameter : group) shapes.emplace(parameter.name, parameter.shape);
  }
  return shapes;
}

absl::Status AddParameters(CheckpointBuilder& builder, const std::string& folder,
                           const std::map<std::string, Shape>& shapes) {
  Storage& storage = builder.storage();
  SW_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> parameters,
                      storage.List(JoinPath(builder.directory(), folder)));
  for (const DirectoryEntry& parameter : parameters) {
    if (parameter.type != FileType::kDirectory) continue;
    const std::string path = JoinPath(folder, parameter.name);
    SW_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> slots, storage.List(JoinPath(builder.directory(), path)));
    const auto shape = shapes.find(parameter.name);
    for (const DirectoryEntry& entry : slots) {
      absl::string_view slot = entry.name;
      if (entry.type == FileType::kDirectory || !absl::ConsumeSuffix(&slot, kSuffix)) continue;
      SW_RETURN_IF_ERROR(AddFile(builder, JoinPath(path, entry.name), parameter.name, std::string(slot),
                                 shape == shapes.end() ? nullptr : &shape->second));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<deepspeed::ModelState>> ReadModels(CheckpointBuilder& builder,
                                                              const deepspeed::Location& location, bool& scattered) {
  std::vector<deepspeed::ModelState> models;
  const bool any = std::any_of(location.entries.begin(), location.entries.end(), [](const DirectoryEntry& entry) {
    return absl::EndsWith(entry.name, "_model_states.pt");
  });
  if (!any) return models;
  SW_ASSIGN_OR_RETURN(const deepspeed::Files files, deepspeed::SortFiles(location.entries));
  scattered = files.model_by_rank;
  for (const std::string& name : files.model) {
    SW_ASSIGN_OR_RETURN(const torch_format::PlacedFile file,
                        torch_format::OpenTorchFile(builder, location.prefix + name));
    SW_ASSIGN_OR_RETURN(deepspeed::ModelState state, deepspeed::ReadModelState(file), _ << name);
    models.push_back(std::move(state));
  }
  return models;
}

absl::StatusOr<OpenedCheckpoint> OpenFolder(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  SW_ASSIGN_OR_RETURN(const deepspeed::Location location, deepspeed::Locate(storage, facts, kLatestFile, options));
  CheckpointBuilder builder(storage, location.directory);
  bool scattered = false;
  SW_ASSIGN_OR_RETURN(std::vector<deepspeed::ModelState> models, ReadModels(builder, location, scattered));
  SW_RETURN_IF_ERROR(AddParameters(builder, absl::StrCat(location.prefix, kParametersFolder), ShapesOf(models)));
  if (models.empty()) return std::move(builder).Finish("deepspeed_universal");
  deepspeed::ModelState& model = models[0];
  deepspeed::AddBuffers(builder, model);
  if (scattered) {
    for (deepspeed::ModelState& other : models) {
      std::erase_if(other.frozen_shapes, [&](const auto& row) { return builder.HasTensor(row.first); });
    }
    SW_RETURN_IF_ERROR(deepspeed::AddScatteredFrozen(builder, models));
  } else {
    deepspeed::AddFrozen(builder, model);
  }
  SW_RETURN_IF_ERROR(deepspeed::AddShared(builder, model));
  deepspeed::AddExtras(builder, model, Value());
  return std::move(builder).Finish("deepspeed_universal");
}

absl::StatusOr<OpenedCheckpoint> Open(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  absl::StatusOr<OpenedCheckpoint> opened = OpenFolder(storage, facts, options);
  SW_RETURN_IF_ERROR(opened.status()) << "reading " << facts.path;
  return opened;
}

}  // namespace

CheckpointFormat DeepSpeedUniversalFormat() {
  return {"deepspeed_universal", &Sniff, &Open};
}

}  // namespace shardwright
