#include "shardwright/core/format/torch/object_walk.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright::torch_format {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::kNoNode;
using pickle::NodeId;

constexpr size_t kMaxDepth = 256;
constexpr size_t kMaxNameBytes = 64 * 1024;
constexpr size_t kStepsPerNode = 32;
constexpr size_t kStepsAnyway = 100'000;
constexpr int kMaxShownKeys = 8;

// A part of an object, and what it is called there.
struct Child {
  NodeId node = kNoNode;
  NodeId key = kNoNode;       // names it, if there is one
  int64_t index = -1;         // else this does, if it is not negative
  absl::string_view literal;  // else this; if empty, the child adds nothing to the path
  bool in_module = false;
};

bool IsModuleObject(const Graph& graph, NodeId node) {
  return graph.kind(node) == Kind::kCall && graph.Get(node, "_parameters") != kNoNode &&
         graph.Get(node, "_modules") != kNoNode;
}

void AppendPairs(const Graph& graph, absl::Span<const NodeId> pairs, std::vector<Child>& children) {
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) children.push_back({.node = pairs[i + 1], .key = pairs[i]});
}

void AppendItems(absl::Span<const NodeId> items, std::vector<Child>& children) {
  for (size_t i = 0; i < items.size(); ++i) children.push_back({.node = items[i], .index = static_cast<int64_t>(i)});
}

// state_dict() names parameters and buffers of a module without the dicts that they are kept in.
void AppendModule(const Graph& graph, NodeId node, std::vector<Child>& children) {
  for (const absl::string_view part : {"_parameters", "_buffers", "_modules"}) {
    const NodeId dict = graph.Get(node, part);
    if (dict == kNoNode || graph.kind(dict) != Kind::kDict) continue;
    const size_t first = children.size();
    AppendPairs(graph, graph.items(dict), children);
    for (size_t i = first; i < children.size(); ++i) children[i].in_module = true;
  }
}

void AppendState(const Graph& graph, NodeId state, std::vector<Child>& children) {
  if (state == kNoNode) return;
  if (graph.kind(state) == Kind::kDict) return AppendPairs(graph, graph.items(state), children);
  if (graph.kind(state) != Kind::kTuple) return children.push_back({.node = state, .literal = "state"});
  // A pair of attributes and slots.
  for (const NodeId part : graph.items(state)) {
    if (graph.kind(part) == Kind::kDict) {
      AppendPairs(graph, graph.items(part), children);
    } else {
      children.push_back({.node = part, .literal = "state"});
    }
  }
}

void AppendSparse(const Graph& graph, NodeId node, std::vector<Child>& children) {
  const absl::Span<const NodeId> arguments = graph.arguments(node);
  if (arguments.size() != 2) return;
  const absl::Span<const NodeId> parts = graph.items(arguments[1]);
  if (parts.size() < 3) return;
  const bool compressed = graph.kind(parts[2]) == Kind::kCall;
  const std::vector<absl::string_view> names =
      compressed ? std::vector<absl::string_view>{"compressed_indices", "plain_indices", "values"}
                 : std::vector<absl::string_view>{"indices", "values"};
  for (size_t i = 0; i < names.size(); ++i) children.push_back({.node = parts[i], .literal = names[i]});
}

std::vector<Child> ChildrenOf(const Graph& graph, NodeId node) {
  std::vector<Child> children;
  switch (graph.kind(node)) {
    case Kind::kDict:
      // What an OrderedDict has for state are notes on versions.
      AppendPairs(graph, graph.items(node), children);
      break;
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kSet:
      AppendItems(graph.items(node), children);
      break;
    case Kind::kCall:
      if (IsModuleObject(graph, node)) {
        AppendModule(graph, node, children);
      } else if (graph.IsCall(node, "torch._utils", "_rebuild_sparse_tensor")) {
        AppendSparse(graph, node, children);
      } else {
        AppendItems(graph.arguments(node), children);
        if (graph.has_pairs(node)) {
          AppendPairs(graph, graph.items(node), children);
        } else {
          AppendItems(graph.items(node), children);
        }
        AppendState(graph, graph.state(node), children);
      }
      break;
    default:
      break;
  }
  return children;
}

// Every node that a node holds, as it holds it: arguments and state count once, however many calls share them.
template <typename Fn>
void ForEachPart(const Graph& graph, NodeId node, const Fn& fn) {
  for (const NodeId item : graph.items(node)) fn(item);
  if (graph.arguments_node(node) != kNoNode) fn(graph.arguments_node(node));
  if (graph.state(node) != kNoNode) fn(graph.state(node));
}

// Which nodes lead to a tensor: only those are walked, so that what is shared a billion times elsewhere costs nothing.
std::vector<bool> LeadingToTensors(const Graph& graph, const TensorsByNode& tensors) {
  // Edges backwards, as compressed rows.
  std::vector<uint32_t> begin(graph.size() + 1, 0);
  for (NodeId id = 0; id < graph.size(); ++id) {
    ForEachPart(graph, id, [&](NodeId part) { ++begin[part + 1]; });
  }
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<NodeId> parents(begin.back());
  std::vector<uint32_t> filled(begin.begin(), begin.end() - 1);
  for (NodeId id = 0; id < graph.size(); ++id) {
    ForEachPart(graph, id, [&](NodeId part) { parents[filled[part]++] = id; });
  }
  std::vector<bool> leads(graph.size(), false);
  std::vector<NodeId> queue;
  for (const auto& [id, tensor] : tensors) {
    leads[id] = true;
    queue.push_back(id);
  }
  while (!queue.empty()) {
    const NodeId id = queue.back();
    queue.pop_back();
    for (uint32_t i = begin[id]; i < begin[id + 1]; ++i) {
      if (leads[parents[i]]) continue;
      leads[parents[i]] = true;
      queue.push_back(parents[i]);
    }
  }
  return leads;
}

class Walk {
 public:
  Walk(const Graph& graph, const TensorsByNode& tensors)
      : graph_(graph), tensors_(tensors), leads_(LeadingToTensors(graph, tensors)), on_path_(graph.size(), false) {}

  absl::StatusOr<std::vector<FoundTensor>> Run(NodeId root) {
    if (!leads_[root]) return std::move(found_);
    if (tensors_.contains(root)) {
      found_.push_back({{}, root, kNoNode, false});
      return std::move(found_);
    }
    Enter(root, false);
    while (!frames_.empty()) SW_RETURN_IF_ERROR(Step());
    return std::move(found_);
  }

 private:
  struct Frame {
    NodeId node;
    bool in_module;
    size_t path_length;  // of the path that leads here
    std::vector<Child> children;
    size_t next = 0;
  };

  void Enter(NodeId node, bool in_module) {
    on_path_[node] = true;
    frames_.push_back({node, in_module, path_.size(), ChildrenOf(graph_, node)});
    steps_ += frames_.back().children.size();
  }

  absl::Status Step() {
    Frame& frame = frames_.back();
    path_.resize(frame.path_length);
    if (frame.next == frame.children.size()) {
      on_path_[frame.node] = false;
      frames_.pop_back();
      return absl::OkStatus();
    }
    if (steps_ > kStepsAnyway + kStepsPerNode * graph_.size()) {
      return absl::DataLossError("shared parts lead to more tensors than any real object has");
    }
    const Child child = frame.children[frame.next++];
    if (!leads_[child.node] || on_path_[child.node]) return absl::OkStatus();
    if (frames_.size() >= kMaxDepth) return absl::DataLossError(absl::StrCat("tensors nested deeper than ", kMaxDepth));
    const bool in_module = child.in_module || (frame.in_module && child.key == kNoNode);
    SW_RETURN_IF_ERROR(Name(child));
    if (tensors_.contains(child.node)) {
      found_.push_back({path_, child.node, frame.node, in_module});
    } else {
      Enter(child.node, in_module);
    }
    return absl::OkStatus();
  }

  absl::Status Name(const Child& child) {
    if (child.key != kNoNode) {
      path_.push_back(KeyText(graph_, child.key));
    } else if (child.index >= 0) {
      path_.push_back(absl::StrCat(child.index));
    } else if (!child.literal.empty()) {
      path_.emplace_back(child.literal);
    }
    size_t bytes = 0;
    for (const std::string& part : path_) bytes += part.size() + 1;
    if (bytes <= kMaxNameBytes) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("a tensor's name of more than ", kMaxNameBytes, " bytes"));
  }

  const Graph& graph_;
  const TensorsByNode& tensors_;
  const std::vector<bool> leads_;
  std::vector<bool> on_path_;
  std::vector<Frame> frames_;
  std::vector<std::string> path_;
  std::vector<FoundTensor> found_;
  size_t steps_ = 0;
};

}  // namespace

absl::StatusOr<TensorsByNode> FindTensors(const TorchFile& file) {
  TensorsByNode tensors;
  for (NodeId id = 0; id < file.graph.size(); ++id) {
    if (file.graph.kind(id) != Kind::kCall) continue;
    SW_ASSIGN_OR_RETURN(std::optional<TorchTensor> tensor, AsTensor(file, id));
    if (tensor.has_value()) tensors.emplace(id, *std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<std::vector<FoundTensor>> WalkTensors(const Graph& graph, NodeId root, const TensorsByNode& tensors) {
  return Walk(graph, tensors).Run(root);
}

std::string KeyText(const Graph& graph, NodeId key) {
  switch (graph.kind(key)) {
    case Kind::kString:
      return std::string(graph.text(key));
    case Kind::kInt:
      return absl::StrCat(graph.integer(key));
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return graph.boolean(key) ? "True" : "False";
    case Kind::kFloat:
      return absl::StrFormat("%.17g", graph.real(key));
    case Kind::kBytes:
      return absl::StrCat("b'", absl::CHexEscape(graph.text(key).substr(0, 64)), "'");
    case Kind::kTuple: {
      // Of plain parts: a tuple of tuples is shown as its size.
      std::string text = "(";
      int shown = 0;
      for (const NodeId item : graph.items(key)) {
        const bool plain = graph.kind(item) != Kind::kTuple && shown < kMaxShownKeys;
        absl::StrAppend(&text, shown == 0 ? "" : ", ", plain ? KeyText(graph, item) : "...");
        if (++shown > kMaxShownKeys) break;
      }
      return text + ")";
    }
    default:
      return absl::StrCat("<", graph.GlobalName(key), ">");
  }
}

}  // namespace shardwright::torch_format
