#include "shardwright/core/format/pickle/graph.h"

#include <set>

#include "absl/strings/str_cat.h"

namespace shardwright::pickle {

absl::string_view Graph::module(NodeId id) const {
  return absl::string_view(nodes_[id].text, nodes_[id].arguments);
}

absl::string_view Graph::name(NodeId id) const {
  return text(id).substr(nodes_[id].arguments + 1);
}

std::string Graph::GlobalName(NodeId id) const {
  // A call of a call (of a call): as many steps as there are nodes at most, for a callee is older than its call.
  while (kind(id) == Kind::kCall) id = target(id);
  if (kind(id) != Kind::kGlobal) return "an unnamed object";
  return absl::StrCat(module(id), ".", name(id));
}

absl::Span<const NodeId> Graph::items(NodeId id) const {
  const uint32_t index = nodes_[id].items;
  return index == kNoNode ? absl::Span<const NodeId>() : items_[index];
}

absl::Span<const NodeId> Graph::arguments(NodeId id) const {
  if (kind(id) != Kind::kCall) return {};
  return items(nodes_[id].arguments);
}

bool Graph::IsGlobal(NodeId id, absl::string_view module_name, absl::string_view global_name) const {
  return id != kNoNode && kind(id) == Kind::kGlobal && module(id) == module_name && name(id) == global_name;
}

bool Graph::IsCall(NodeId id, absl::string_view module_name, absl::string_view global_name) const {
  return id != kNoNode && kind(id) == Kind::kCall && IsGlobal(target(id), module_name, global_name);
}

std::optional<int64_t> Graph::Int(NodeId id) const {
  if (id == kNoNode || kind(id) != Kind::kInt) return std::nullopt;
  return integer(id);
}

std::optional<bool> Graph::Bool(NodeId id) const {
  if (id == kNoNode || kind(id) != Kind::kBool) return std::nullopt;
  return boolean(id);
}

std::optional<absl::string_view> Graph::String(NodeId id) const {
  if (id == kNoNode || kind(id) != Kind::kString) return std::nullopt;
  return text(id);
}

std::optional<std::vector<int64_t>> Graph::Ints(NodeId id, size_t max_count) const {
  if (id == kNoNode || (kind(id) != Kind::kTuple && kind(id) != Kind::kList)) return std::nullopt;
  if (items(id).size() > max_count) return std::nullopt;
  std::vector<int64_t> numbers;
  numbers.reserve(items(id).size());
  for (const NodeId item : items(id)) {
    if (kind(item) != Kind::kInt) return std::nullopt;
    numbers.push_back(integer(item));
  }
  return numbers;
}

NodeId Graph::Get(NodeId dict, absl::string_view key) const {
  if (dict == kNoNode) return kNoNode;
  if (kind(dict) == Kind::kCall) {
    // An object's attributes: its state, or the first or second part of a pair (dict, slots).
    const NodeId attributes = state(dict);
    if (attributes == kNoNode) return kNoNode;
    if (kind(attributes) != Kind::kTuple) return kind(attributes) == Kind::kDict ? Get(attributes, key) : kNoNode;
    for (const NodeId part : items(attributes)) {
      const NodeId found = kind(part) == Kind::kDict ? Get(part, key) : kNoNode;
      if (found != kNoNode) return found;
    }
    return kNoNode;
  }
  if (kind(dict) != Kind::kDict) return kNoNode;
  const absl::Span<const NodeId> pairs = items(dict);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (kind(pairs[i]) == Kind::kString && text(pairs[i]) == key) return pairs[i + 1];
  }
  return kNoNode;
}

NodeId Graph::Get(NodeId dict, std::initializer_list<absl::string_view> path) const {
  for (const absl::string_view key : path) dict = Get(dict, key);
  return dict;
}

std::vector<std::string> Graph::Globals() const {
  std::set<std::string> names;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (kind(id) == Kind::kGlobal) names.insert(GlobalName(id));
  }
  return {names.begin(), names.end()};
}

}  // namespace shardwright::pickle
