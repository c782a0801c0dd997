#include "shardwright/core/format/deepspeed/zero_state.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/torch/extras.h"
#include "shardwright/core/format/torch/object_walk.h"
#include "shardwright/core/format/torch/torch_tensor.h"

namespace shardwright::deepspeed {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::kNoNode;
using pickle::NodeId;
using torch_format::PlacedFile;
using torch_format::TorchTensor;

absl::Status Missing(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("no ", what));
}

bool IsNone(const Graph& graph, NodeId node) {
  return node == kNoNode || graph.kind(node) == Kind::kNone;
}

absl::Span<const NodeId> ListItems(const Graph& graph, NodeId node) {
  const bool list = node != kNoNode && (graph.kind(node) == Kind::kList || graph.kind(node) == Kind::kTuple);
  return list ? graph.items(node) : absl::Span<const NodeId>();
}

absl::StatusOr<Whole> ReadWhole(const PlacedFile& file, NodeId node) {
  SW_ASSIGN_OR_RETURN(const std::optional<TorchTensor> tensor, torch_format::AsTensor(file.torch, node));
  if (!tensor.has_value()) return absl::DataLossError("not a tensor");
  return Whole{tensor->dtype, torch_format::PieceOf(file, *tensor, Box::Whole(tensor->shape))};
}

absl::StatusOr<Flat> ReadFlat(const PlacedFile& file, NodeId node) {
  SW_ASSIGN_OR_RETURN(Whole whole, ReadWhole(file, node));
  if (whole.shape().size() > 1 || !torch_format::IsDense(whole.shape(), whole.piece.stride)) {
    return absl::DataLossError(absl::StrCat("a tensor of shape ", ShapeToString(whole.shape()), ", want a flat one"));
  }
  return Flat{whole.dtype, std::move(whole.piece)};
}

// A stage is an integer or, newer, an enumeration made of one.
int StageOf(const Graph& graph, NodeId node) {
  if (node == kNoNode) return 0;
  std::optional<int64_t> stage = graph.Int(node);
  if (graph.kind(node) == Kind::kCall && graph.arguments(node).size() == 1) stage = graph.Int(graph.arguments(node)[0]);
  return stage.has_value() && *stage >= 0 && *stage <= 3 ? static_cast<int>(*stage) : -1;
}

absl::Status ReadMaster(const PlacedFile& file, NodeId groups, RankState& state) {
  for (const NodeId group : ListItems(file.torch.graph, groups)) {
    SW_ASSIGN_OR_RETURN(Flat flat, ReadFlat(file, group), _ << "fp32 group " << state.master.size());
    if (flat.is_scalar()) return absl::DataLossError("a scalar for an fp32 group");
    state.master.push_back(std::move(flat));
  }
  return absl::OkStatus();
}

// Groups are keyed by their index; what is not a tensor stays behind.
absl::Status ReadSlots(const PlacedFile& file, NodeId optimizer, RankState& state) {
  const Graph& graph = file.torch.graph;
  const NodeId groups = graph.Get(optimizer, "state");
  state.slots.resize(state.master.size());
  if (groups == kNoNode || graph.kind(groups) != Kind::kDict) return absl::OkStatus();
  const absl::Span<const NodeId> pairs = graph.items(groups);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const auto index = graph.Int(pairs[i]);
    if (!index.has_value() || *index < 0 || *index >= static_cast<int64_t>(state.slots.size())) {
      return absl::DataLossError("optimizer state of a group that is not there");
    }
    if (graph.kind(pairs[i + 1]) != Kind::kDict) continue;
    const absl::Span<const NodeId> slots = graph.items(pairs[i + 1]);
    for (size_t j = 0; j + 1 < slots.size(); j += 2) {
      if (graph.kind(slots[j + 1]) != Kind::kCall) continue;
      const std::string name = torch_format::KeyText(graph, slots[j]);
      SW_ASSIGN_OR_RETURN(Flat flat, ReadFlat(file, slots[j + 1]), _ << "slot " << absl::CHexEscape(name));
      state.slots[static_cast<size_t>(*index)].insert_or_assign(name, std::move(flat));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadPaddings(const Graph& graph, NodeId node, RankState& state) {
  for (const NodeId group : ListItems(graph, node)) {
    std::vector<int64_t>& paddings = state.paddings.emplace_back();
    for (const NodeId padding : ListItems(graph, group)) {
      const auto elements = graph.Int(padding);
      if (!elements.has_value() || *elements < 0) return absl::DataLossError("a malformed param_alignment_paddings");
      paddings.push_back(*elements);
    }
  }
  return absl::OkStatus();
}

int64_t PartitionCount(const Graph& graph, NodeId node) {
  if (node == kNoNode) return 0;
  int64_t count = graph.Int(node).value_or(0);
  for (const NodeId item : ListItems(graph, node)) count = std::max(count, graph.Int(item).value_or(0));
  return count;
}

absl::StatusOr<std::vector<Parameter>> ReadShapes(const Graph& graph, NodeId dict) {
  std::vector<Parameter> parameters;
  if (dict == kNoNode || graph.kind(dict) != Kind::kDict) return Missing("dict of shapes");
  const absl::Span<const NodeId> pairs = graph.items(dict);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    auto shape = graph.Ints(pairs[i + 1]);
    const auto elements = shape.has_value() ? CheckedElements(*shape) : std::nullopt;
    if (!elements.has_value()) {
      return absl::DataLossError(
          absl::StrCat("the shape of \"", absl::CHexEscape(torch_format::KeyText(graph, pairs[i])), "\""));
    }
    parameters.push_back({torch_format::KeyText(graph, pairs[i]), *std::move(shape), *elements});
  }
  return parameters;
}

absl::StatusOr<std::vector<std::pair<std::string, Whole>>> ReadTensors(const PlacedFile& file, NodeId dict) {
  const Graph& graph = file.torch.graph;
  std::vector<std::pair<std::string, Whole>> tensors;
  if (IsNone(graph, dict)) return tensors;
  const absl::Span<const NodeId> pairs = graph.items(dict);
  if (graph.kind(dict) != Kind::kDict) return absl::DataLossError("not a dict of tensors");
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    // A module may keep other things under get_extra_state().
    if (graph.kind(pairs[i + 1]) != Kind::kCall) continue;
    std::string name = torch_format::KeyText(graph, pairs[i]);
    SW_ASSIGN_OR_RETURN(Whole whole, ReadWhole(file, pairs[i + 1]), _ << "\"" << absl::CHexEscape(name) << "\"");
    tensors.emplace_back(std::move(name), std::move(whole));
  }
  return tensors;
}

std::vector<std::string> ReadNames(const Graph& graph, NodeId list) {
  std::vector<std::string> names;
  for (const NodeId item : ListItems(graph, list)) {
    if (const auto name = graph.String(item)) names.emplace_back(*name);
  }
  return names;
}

}  // namespace

absl::StatusOr<RankState> ReadRankState(const PlacedFile& file) {
  const Graph& graph = file.torch.graph;
  const NodeId top = graph.Get(graph.root(), "optimizer_state_dict");
  if (IsNone(graph, top)) return Missing("optimizer_state_dict");
  RankState state;
  state.stage = StageOf(graph, graph.Get(top, "zero_stage"));
  if (state.stage < 0) return absl::DataLossError("a zero_stage that is no stage");
  state.partition_count = PartitionCount(graph, graph.Get(top, "partition_count"));
  state.version = std::string(graph.String(graph.Get(graph.root(), "ds_version")).value_or(""));
  const bool third = state.stage == 3;
  const NodeId master = graph.Get(top, third ? "fp32_flat_groups" : "single_partition_of_fp32_groups");
  if (IsNone(graph, master)) return Missing(third ? "fp32_flat_groups" : "single_partition_of_fp32_groups");
  SW_RETURN_IF_ERROR(ReadMaster(file, master, state));
  const NodeId optimizer = graph.Get(top, third ? "optimizer_state_dict" : "base_optimizer_state");
  if (optimizer != kNoNode && graph.kind(optimizer) == Kind::kList) {
    return absl::UnimplementedError("optimizer state of an elastic checkpoint");
  }
  SW_RETURN_IF_ERROR(ReadSlots(file, optimizer, state));
  SW_RETURN_IF_ERROR(ReadPaddings(graph, graph.Get(top, "param_alignment_paddings"), state));
  const NodeId groups = graph.Get(optimizer, "param_groups");
  if (groups != kNoNode) state.param_groups = torch_format::ToValue(graph, groups, {});
  return state;
}

absl::StatusOr<ModelState> ReadModelState(const PlacedFile& file) {
  const Graph& graph = file.torch.graph;
  const NodeId root = graph.root();
  if (graph.kind(root) != Kind::kDict || IsNone(graph, graph.Get(root, "module"))) return Missing("module");
  ModelState state;
  for (const NodeId group : ListItems(graph, graph.Get(root, "param_shapes"))) {
    SW_ASSIGN_OR_RETURN(std::vector<Parameter> parameters, ReadShapes(graph, group), _ << "param_shapes");
    state.groups.push_back(std::move(parameters));
  }
  SW_ASSIGN_OR_RETURN(state.module, ReadTensors(file, graph.Get(root, "module")), _ << "module");
  SW_ASSIGN_OR_RETURN(state.frozen, ReadTensors(file, graph.Get(root, "frozen_param_fragments")), _ << "frozen");
  if (!IsNone(graph, graph.Get(root, "frozen_param_shapes"))) {
    SW_ASSIGN_OR_RETURN(const std::vector<Parameter> shapes, ReadShapes(graph, graph.Get(root, "frozen_param_shapes")));
    for (const Parameter& parameter : shapes) state.frozen_shapes.emplace(parameter.name, parameter.shape);
  }
  state.buffers = ReadNames(graph, graph.Get(root, "buffer_names"));
  const NodeId shared = graph.Get(root, "shared_params");
  if (!IsNone(graph, shared) && graph.kind(shared) == Kind::kDict) {
    const absl::Span<const NodeId> pairs = graph.items(shared);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      state.shared.emplace_back(torch_format::KeyText(graph, pairs[i]), torch_format::KeyText(graph, pairs[i + 1]));
    }
  }
  state.extras = torch_format::ToExtras(graph, root, {},
                                        {"module", "optimizer", "param_shapes", "buffer_names", "frozen_param_shapes",
                                         "frozen_param_fragments", "shared_params"});
  return state;
}

}  // namespace shardwright::deepspeed
