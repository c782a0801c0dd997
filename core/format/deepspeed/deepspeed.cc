#include "shardwright/core/format/deepspeed/deepspeed.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/deepspeed/deepspeed_files.h"
#include "shardwright/core/format/deepspeed/model_parts.h"
#include "shardwright/core/format/deepspeed/zero_assembly.h"
#include "shardwright/core/format/deepspeed/zero_state.h"
#include "shardwright/core/format/torch/saved_object.h"

namespace shardwright {
namespace {

constexpr absl::string_view kLatestFile = "latest";
constexpr absl::string_view kModelSuffix = "_model_states.pt";
constexpr absl::string_view kOptimizerSuffix = "_optim_states.pt";

bool Sniff(const PathFacts& facts) {
  if (!facts.is_directory) return false;
  return facts.HasSuffix(kModelSuffix) || facts.HasSuffix(kOptimizerSuffix) || facts.Has(kLatestFile);
}

// One file at a time is open, and its pickle in memory.
absl::StatusOr<std::vector<deepspeed::RankState>> ReadRanks(CheckpointBuilder& builder, const std::string& prefix,
                                                            const std::vector<std::string>& names) {
  std::vector<deepspeed::RankState> ranks;
  for (const std::string& name : names) {
    SW_ASSIGN_OR_RETURN(const torch_format::PlacedFile file, torch_format::OpenTorchFile(builder, prefix + name));
    SW_ASSIGN_OR_RETURN(deepspeed::RankState state, deepspeed::ReadRankState(file), _ << name);
    ranks.push_back(std::move(state));
  }
  return ranks;
}

absl::StatusOr<std::vector<deepspeed::ModelState>> ReadModels(CheckpointBuilder& builder, const std::string& prefix,
                                                              const std::vector<std::string>& names) {
  std::vector<deepspeed::ModelState> models;
  for (const std::string& name : names) {
    SW_ASSIGN_OR_RETURN(const torch_format::PlacedFile file, torch_format::OpenTorchFile(builder, prefix + name));
    SW_ASSIGN_OR_RETURN(deepspeed::ModelState state, deepspeed::ReadModelState(file), _ << name);
    models.push_back(std::move(state));
    // Of the other ranks, only fragments of frozen parameters are wanted.
    if (models[0].frozen_shapes.empty()) break;
  }
  return models;
}

// Stages 1 to 3.
absl::Status AddZero(CheckpointBuilder& builder, const deepspeed::Location& location, const deepspeed::Files& files) {
  SW_ASSIGN_OR_RETURN(const std::vector<deepspeed::ModelState> models,
                      ReadModels(builder, location.prefix, files.model));
  SW_ASSIGN_OR_RETURN(const std::vector<deepspeed::RankState> ranks,
                      ReadRanks(builder, location.prefix, files.optimizer));
  const deepspeed::ModelState& model = models[0];
  const bool third = ranks[0].stage == 3;
  if (third && files.model.size() != ranks.size()) {
    return absl::DataLossError(
        absl::StrCat("there are model files of ", files.model.size(), " ranks, want ", ranks.size()));
  }
  if (third) {
    SW_RETURN_IF_ERROR(deepspeed::AddScattered(builder, ranks, model.groups));
    SW_RETURN_IF_ERROR(deepspeed::AddScatteredFrozen(builder, models));
  } else {
    SW_RETURN_IF_ERROR(deepspeed::AddPartitioned(builder, ranks, model.groups));
    deepspeed::AddFrozen(builder, model);
  }
  deepspeed::AddBuffers(builder, model);
  SW_RETURN_IF_ERROR(deepspeed::AddShared(builder, model));
  // Stage 3 leaves empty placeholders in the module.
  if (!third) deepspeed::AddRest(builder, model);
  deepspeed::AddExtras(builder, model, ranks[0].param_groups);
  builder.data().topology.world_size = static_cast<int32_t>(ranks.size());
  builder.data().topology.strategy = absl::StrCat("zero", ranks[0].stage == 0 ? 1 : ranks[0].stage);
  return absl::OkStatus();
}

std::optional<std::string> ModuleName(const torch_format::FoundTensor& found) {
  if (found.path.size() < 2 || found.path[0] != "module") return std::nullopt;
  return absl::StrJoin(found.path.begin() + 1, found.path.end(), ".");
}

// Stage 0: the model file holds all, the optimizer's state as torch has it.
absl::Status AddStageZero(CheckpointBuilder& builder, const std::string& path) {
  SW_ASSIGN_OR_RETURN(const torch_format::PlacedFile file, torch_format::OpenTorchFile(builder, path));
  SW_ASSIGN_OR_RETURN(const deepspeed::ModelState model, deepspeed::ReadModelState(file), _ << path);
  SW_RETURN_IF_ERROR(torch_format::AddSavedObject(
      builder, file, {&ModuleName, std::set<std::string>(model.buffers.begin(), model.buffers.end())}))
      << path;
  const auto step = model.extras.find("global_steps");
  const int64_t* steps = step == model.extras.end() ? nullptr : step->second.get_if<int64_t>();
  if (steps != nullptr && *steps >= 0) builder.data().progress.step = *steps;
  return absl::OkStatus();
}

absl::StatusOr<OpenedCheckpoint> OpenFolder(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  SW_ASSIGN_OR_RETURN(const deepspeed::Location location, deepspeed::Locate(storage, facts, kLatestFile, options));
  SW_ASSIGN_OR_RETURN(const deepspeed::Files files, deepspeed::SortFiles(location.entries));
  CheckpointBuilder builder(storage, location.directory);
  if (!files.optimizer.empty()) {
    SW_RETURN_IF_ERROR(AddZero(builder, location, files));
  } else if (files.model_by_rank) {
    return absl::DataLossError("the ranks' *_optim_states.pt are missing: the weights of stage 3 are in them");
  } else {
    SW_RETURN_IF_ERROR(AddStageZero(builder, location.prefix + files.model[0]));
  }
  return std::move(builder).Finish("deepspeed");
}

absl::StatusOr<OpenedCheckpoint> Open(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  absl::StatusOr<OpenedCheckpoint> opened = OpenFolder(storage, facts, options);
  SW_RETURN_IF_ERROR(opened.status()) << "reading " << facts.path;
  return opened;
}

}  // namespace

CheckpointFormat DeepSpeedFormat() {
  return {"deepspeed", &Sniff, &Open};
}

}  // namespace shardwright
