#include "shardwright/core/format/torch/naming.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shardwright::torch_format {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::kNoNode;
using pickle::NodeId;

std::string Joined(const std::vector<std::string>& path) {
  return path.empty() ? "tensor" : absl::StrJoin(path, ".");
}

// Where an optimizer keeps the state of one parameter.
struct Slots {
  NodeId optimizer = kNoNode;
  std::string id;
};

// By the dict of slots. An optimizer's state dict is {"state": {id: {slot: tensor}}, "param_groups": [...]}.
absl::flat_hash_map<NodeId, Slots> FindSlots(const Graph& graph) {
  absl::flat_hash_map<NodeId, Slots> slots;
  absl::flat_hash_set<NodeId> seen;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) != Kind::kDict || graph.Get(id, "param_groups") == kNoNode) continue;
    const NodeId state = graph.Get(id, "state");
    if (state == kNoNode || graph.kind(state) != Kind::kDict || !seen.insert(state).second) continue;
    const absl::Span<const NodeId> pairs = graph.items(state);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) slots.emplace(pairs[i + 1], Slots{id, KeyText(graph, pairs[i])});
  }
  return slots;
}

// Ids of an optimizer's parameters, in the order of its groups.
std::vector<std::string> ParameterIds(const Graph& graph, NodeId optimizer) {
  std::vector<std::string> ids;
  for (const NodeId group : graph.items(graph.Get(optimizer, "param_groups"))) {
    const NodeId params = graph.Get(group, "params");
    if (params == kNoNode || graph.kind(params) != Kind::kList) continue;
    for (const NodeId id : graph.items(params)) ids.push_back(KeyText(graph, id));
  }
  return ids;
}

// Names of parameters by id; empty if numbers, counts or shapes do not agree.
using NamesById = absl::flat_hash_map<std::string, std::string>;

class OptimizerNames {
 public:
  OptimizerNames(const Graph& graph, const TensorsByNode& tensors, absl::flat_hash_map<NodeId, Slots> slots)
      : graph_(graph), tensors_(tensors), slots_(std::move(slots)) {}

  const Slots* Find(const FoundTensor& found) const {
    const auto place = slots_.find(found.parent);
    return place == slots_.end() ? nullptr : &place->second;
  }

  int32_t IndexOf(NodeId optimizer) {
    const auto place = std::find(order_.begin(), order_.end(), optimizer);
    if (place != order_.end()) return static_cast<int32_t>(place - order_.begin());
    order_.push_back(optimizer);
    return static_cast<int32_t>(order_.size() - 1);
  }

  // `parameters` are the trainable ones in the order of the state dict, with their shapes.
  const NamesById& Names(NodeId optimizer, const std::vector<std::pair<std::string, Shape>>& parameters) {
    const auto [place, is_new] = names_.try_emplace(optimizer);
    if (is_new) place->second = Match(optimizer, parameters);
    return place->second;
  }

 private:
  NamesById Match(NodeId optimizer, const std::vector<std::pair<std::string, Shape>>& parameters) const {
    const std::vector<std::string> ids = ParameterIds(graph_, optimizer);
    if (ids.size() != parameters.size()) return {};
    NamesById names;
    absl::flat_hash_map<absl::string_view, size_t> index;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!names.emplace(ids[i], parameters[i].first).second) return {};
      index.emplace(ids[i], i);
    }
    const absl::Span<const NodeId> state = graph_.items(graph_.Get(optimizer, "state"));
    for (size_t i = 0; i + 1 < state.size(); i += 2) {
      const auto at = index.find(KeyText(graph_, state[i]));
      if (at == index.end() || !Fits(state[i + 1], parameters[at->second].second)) return {};
    }
    return names;
  }

  // Slots have the parameter's shape, but for counters.
  bool Fits(NodeId slots, const Shape& shape) const {
    if (graph_.kind(slots) != Kind::kDict) return false;
    const absl::Span<const NodeId> pairs = graph_.items(slots);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const auto tensor = tensors_.find(pairs[i + 1]);
      if (tensor == tensors_.end() || tensor->second.shape.empty()) continue;
      if (tensor->second.shape != shape) return false;
    }
    return true;
  }

  const Graph& graph_;
  const TensorsByNode& tensors_;
  const absl::flat_hash_map<NodeId, Slots> slots_;
  std::vector<NodeId> order_;
  absl::flat_hash_map<NodeId, NamesById> names_;
};

bool IsFloatType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kUInt16:
    case DType::kInt16:
    case DType::kUInt32:
    case DType::kInt32:
    case DType::kUInt64:
    case DType::kInt64:
      return false;
    default:
      return true;
  }
}

// A dict that holds tensors and at most plain values beside them, all under strings.
bool IsStateDict(const Graph& graph, const TensorsByNode& tensors, NodeId node) {
  if (node == kNoNode || graph.kind(node) != Kind::kDict) return false;
  const absl::Span<const NodeId> pairs = graph.items(node);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (graph.kind(pairs[i]) != Kind::kString) return false;
    const Kind value = graph.kind(pairs[i + 1]);
    const bool composite =
        value == Kind::kDict || value == Kind::kList || value == Kind::kTuple || value == Kind::kCall;
    if (composite && !tensors.contains(pairs[i + 1])) return false;
  }
  return true;
}

// Weights by node of the tensor's view, so that a tied one counts once.
std::vector<std::pair<std::string, Shape>> Trainable(const std::vector<FoundTensor>& found,
                                                     const TensorsByNode& tensors,
                                                     const std::vector<TensorMeta>& metas) {
  std::vector<std::pair<std::string, Shape>> parameters;
  absl::flat_hash_set<std::string> places;
  for (size_t i = 0; i < found.size(); ++i) {
    if (metas[i].role != Role::kParameter || !metas[i].trainable) continue;
    const TorchTensor& tensor = tensors.at(found[i].node);
    const std::string place = absl::StrCat(tensor.storage_key, "@", tensor.offset, ShapeToString(tensor.shape));
    if (!Box::Whole(tensor.shape).empty() && !places.insert(place).second) continue;
    parameters.emplace_back(metas[i].name, metas[i].shape);
  }
  return parameters;
}

}  // namespace

Role GuessRole(absl::string_view name, DType dtype) {
  const bool statistic = absl::EndsWith(name, "running_mean") || absl::EndsWith(name, "running_var");
  return statistic || !IsFloatType(dtype) ? Role::kBuffer : Role::kParameter;
}

WeightName GenericWeights(const Graph& graph, const TensorsByNode& tensors, const std::vector<FoundTensor>& found) {
  const absl::flat_hash_map<NodeId, Slots> slots = FindSlots(graph);
  auto homes = std::make_shared<absl::flat_hash_map<NodeId, bool>>();
  bool any = false;
  for (const FoundTensor& tensor : found) {
    const auto [place, is_new] = homes->try_emplace(tensor.parent, false);
    if (is_new) place->second = !slots.contains(tensor.parent) && IsStateDict(graph, tensors, tensor.parent);
    any |= place->second || tensor.in_module;
  }
  return [homes, any](const FoundTensor& tensor) -> std::optional<std::string> {
    if (any && !tensor.in_module && !homes->at(tensor.parent)) return std::nullopt;
    return Joined(tensor.path);
  };
}

std::vector<TensorMeta> NameTensors(const Graph& graph, const TensorsByNode& tensors,
                                    const std::vector<FoundTensor>& found, const WeightRules& rules, int* unmapped) {
  OptimizerNames optimizers(graph, tensors, FindSlots(graph));
  std::vector<TensorMeta> metas(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const TorchTensor& tensor = tensors.at(found[i].node);
    metas[i].dtype = tensor.dtype;
    metas[i].shape = tensor.shape;
    metas[i].name = Joined(found[i].path);
    metas[i].role = Role::kState;
    if (optimizers.Find(found[i]) != nullptr) continue;
    std::optional<std::string> name = rules.name(found[i]);
    if (!name.has_value()) continue;
    metas[i].role = tensor.is_parameter ? Role::kParameter : GuessRole(*name, tensor.dtype);
    if (rules.buffers.count(*name) > 0) metas[i].role = Role::kBuffer;
    metas[i].trainable =
        metas[i].role == Role::kParameter && (!tensor.is_parameter || tensor.requires_grad.value_or(true));
    metas[i].name = *std::move(name);
  }
  const std::vector<std::pair<std::string, Shape>> parameters = Trainable(found, tensors, metas);
  for (size_t i = 0; i < found.size(); ++i) {
    const Slots* slots = optimizers.Find(found[i]);
    if (slots == nullptr) continue;
    const NamesById& names = optimizers.Names(slots->optimizer, parameters);
    const auto name = names.find(slots->id);
    metas[i].role = Role::kOptimizer;
    metas[i].optimizer = {optimizers.IndexOf(slots->optimizer), name == names.end() ? slots->id : name->second,
                          found[i].path.back()};
    if (name == names.end()) {
      ++*unmapped;
    } else {
      metas[i].name = OptimizerTensorName(metas[i].optimizer);
    }
  }
  return metas;
}

}  // namespace shardwright::torch_format
