#include "shardwright/core/format/per_rank/distributed_tensor.h"

#include <algorithm>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/torch/torch_tensor.h"

namespace shardwright::per_rank {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::kNoNode;
using pickle::NodeId;

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a distributed tensor without ", what));
}

// _rebuild_from_type_v2(function, class, arguments, state)
struct Parts {
  NodeId type = kNoNode;
  absl::Span<const NodeId> arguments;
  NodeId state = kNoNode;
};

std::optional<Parts> PartsOf(const Graph& graph, NodeId node) {
  if (!graph.IsCall(node, "torch._tensor", "_rebuild_from_type_v2")) return std::nullopt;
  const absl::Span<const NodeId> arguments = graph.arguments(node);
  if (arguments.size() != 4 || !graph.IsGlobal(arguments[0], "torch._utils", "_rebuild_wrapper_subclass") ||
      graph.kind(arguments[1]) != Kind::kGlobal || graph.kind(arguments[2]) != Kind::kTuple) {
    return std::nullopt;
  }
  return Parts{arguments[1], graph.items(arguments[2]), arguments[3]};
}

// The dict among the parts of a state.
NodeId Attribute(const Graph& graph, NodeId state, absl::string_view key) {
  if (state == kNoNode) return kNoNode;
  if (graph.kind(state) != Kind::kTuple) return graph.Get(state, key);
  for (const NodeId part : graph.items(state)) {
    const NodeId found = graph.kind(part) == Kind::kDict ? graph.Get(part, key) : kNoNode;
    if (found != kNoNode) return found;
  }
  return kNoNode;
}

// This rank's place on a mesh of one dimension, and how many there are.
struct Coordinate {
  int64_t at = 0;
  int64_t count = 0;
};

absl::StatusOr<Coordinate> ParseMesh(const Graph& graph, NodeId mesh) {
  const NodeId axes = graph.Get(graph.Get(mesh, "_layout"), "axes");
  const auto at = graph.Ints(graph.Get(mesh, "_coordinate_on_dim"));
  if (axes == kNoNode || graph.kind(axes) != Kind::kTuple || !at.has_value())
    return Malformed("a mesh that is known here");
  if (graph.items(axes).size() != 1 || at->size() != 1) {
    return absl::UnimplementedError("distributed tensors on a mesh of several dimensions");
  }
  const auto shape = graph.Ints(graph.Get(graph.items(axes)[0], "shape"));
  if (!shape.has_value() || shape->size() != 1) return absl::UnimplementedError("distributed tensors on a nested mesh");
  if ((*at)[0] < 0 || (*at)[0] >= (*shape)[0]) return Malformed("a place on its mesh");
  return Coordinate{(*at)[0], (*shape)[0]};
}

// Rows (of dimension `dim`) of that place.
absl::StatusOr<Box> ShardBox(const Shape& shape, int64_t dim, const Coordinate& coordinate) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank) return Malformed("the dimension that it is cut along");
  const int64_t size = shape[dim];
  const int64_t per_place = size / coordinate.count + (size % coordinate.count != 0);
  Box box = Box::Whole(shape);
  // Not a product: a place far out overflows none.
  box.offset[dim] =
      per_place != 0 && coordinate.at > size / per_place ? size : std::min(size, coordinate.at * per_place);
  box.size[dim] = std::min(per_place, size - box.offset[dim]);
  return box;
}

absl::StatusOr<torch_format::TorchTensor> LocalTensor(const torch_format::TorchFile& file, NodeId node,
                                                      const Shape& shape) {
  if (node == kNoNode) return Malformed("a local tensor");
  SW_ASSIGN_OR_RETURN(std::optional<torch_format::TorchTensor> tensor, torch_format::AsTensor(file, node));
  if (!tensor.has_value()) return Malformed("a local tensor");
  if (tensor->shape == shape) return *std::move(tensor);
  return absl::DataLossError(
      absl::StrCat("a part of shape ", ShapeToString(tensor->shape), ", want ", ShapeToString(shape)));
}

absl::StatusOr<RankTensor> ParseDTensor(const torch_format::TorchFile& file, const Parts& parts, RankTensor tensor) {
  const Graph& graph = file.graph;
  const NodeId spec = Attribute(graph, parts.state, "_spec");
  const NodeId placements = graph.Get(spec, "placements");
  if (placements == kNoNode || graph.items(placements).empty()) return Malformed("placements");
  SW_ASSIGN_OR_RETURN(const Coordinate coordinate, ParseMesh(graph, graph.Get(spec, "mesh")));
  const NodeId placement = graph.items(placements)[0];
  Box box = Box::Whole(tensor.shape);
  const std::string name = graph.GlobalName(placement);
  if (name == "torch.distributed.tensor.placement_types.Replicate") {
    tensor.replicated = true;
  } else if (name == "torch.distributed.tensor.placement_types.Shard") {
    const auto dim = graph.Int(graph.Get(placement, "dim"));
    if (!dim.has_value()) return Malformed("the dimension that it is cut along");
    SW_ASSIGN_OR_RETURN(box, ShardBox(tensor.shape, *dim, coordinate));
  } else {
    return absl::UnimplementedError(absl::StrCat("distributed tensors placed as ", absl::CHexEscape(name)));
  }
  SW_ASSIGN_OR_RETURN(torch_format::TorchTensor local,
                      LocalTensor(file, Attribute(graph, parts.state, "_local_tensor"), box.size));
  tensor.dtype = local.dtype;
  if (!box.empty()) tensor.parts.push_back({std::move(box), std::move(local)});
  return tensor;
}

absl::StatusOr<RankTensor> ParseShardedTensor(const torch_format::TorchFile& file, const Parts& parts,
                                              RankTensor tensor) {
  const Graph& graph = file.graph;
  if (parts.state == kNoNode || graph.kind(parts.state) != Kind::kTuple || graph.items(parts.state).empty()) {
    return Malformed("shards");
  }
  for (const NodeId shard : graph.items(graph.items(parts.state)[0])) {
    const NodeId metadata = graph.Get(shard, "metadata");
    auto offset = graph.Ints(graph.Get(metadata, "shard_offsets"));
    auto size = graph.Ints(graph.Get(metadata, "shard_sizes"));
    if (!offset.has_value() || !size.has_value()) return Malformed("a shard's offsets and sizes");
    Box box{*std::move(offset), *std::move(size)};
    if (absl::Status status = ValidateBox(box, tensor.shape); !status.ok())
      return absl::DataLossError(status.message());
    SW_ASSIGN_OR_RETURN(torch_format::TorchTensor local, LocalTensor(file, graph.Get(shard, "tensor"), box.size));
    tensor.dtype = local.dtype;
    if (!box.empty()) tensor.parts.push_back({std::move(box), std::move(local)});
  }
  return tensor;
}

}  // namespace

bool IsDistributed(const Graph& graph, NodeId node) {
  return PartsOf(graph, node).has_value();
}

absl::StatusOr<RankTensor> ParseDistributed(const torch_format::TorchFile& file, NodeId node) {
  const Graph& graph = file.graph;
  const std::optional<Parts> parts = PartsOf(graph, node);
  if (!parts.has_value()) return Malformed("its call");
  const auto shape = parts->arguments.size() > 2 ? graph.Ints(parts->arguments[2]) : std::nullopt;
  if (!shape.has_value() || !CheckedElements(*shape).has_value()) return Malformed("a size");
  RankTensor tensor;
  tensor.shape = *shape;
  const absl::string_view type = graph.name(parts->type);
  if (type == "DTensor") return ParseDTensor(file, *parts, std::move(tensor));
  if (type == "ShardedTensor") return ParseShardedTensor(file, *parts, std::move(tensor));
  return absl::UnimplementedError(
      absl::StrCat("distributed tensors of class ", absl::CHexEscape(graph.GlobalName(parts->type))));
}

}  // namespace shardwright::per_rank
