// Makes the nodes of a graph: values, and calls. Part of the library of machine.h.
#ifndef SHARDWRIGHT_CORE_FORMAT_PICKLE_BUILDER_H_
#define SHARDWRIGHT_CORE_FORMAT_PICKLE_BUILDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shardwright/core/format/pickle/graph.h"

namespace shardwright::pickle {

// True for UTF-8 in which lone surrogates are allowed: what Python's "surrogatepass" writes.
bool IsPythonUtf8(absl::string_view text);

// Thread-compatible.
class Builder {
 public:
  explicit Builder(std::shared_ptr<const std::string> bytes);

  NodeId None() const { return kNoneNode; }
  NodeId Bool(bool value) const { return value ? kTrueNode : kFalseNode; }
  NodeId EmptyTuple() const { return kEmptyTupleNode; }
  NodeId Int(int64_t value);
  NodeId Float(double value);
  // Two's complement, little-endian.
  NodeId Long(absl::string_view bytes);
  // `text` points into the pickle.
  absl::StatusOr<NodeId> String(absl::string_view text);
  NodeId BytesOf(absl::string_view text);
  NodeId Sequence(Kind kind, absl::Span<const NodeId> items);
  absl::StatusOr<NodeId> Global(absl::string_view module, absl::string_view name);
  NodeId Persistent(NodeId id);
  // callee(*arguments); what a few well-known callees make of plain data is made: OrderedDict, set, bytes, torch.Size.
  absl::StatusOr<NodeId> Call(NodeId callee, NodeId arguments);

  absl::Status Append(NodeId target, absl::Span<const NodeId> items);
  absl::Status AddToSet(NodeId target, absl::Span<const NodeId> items);
  // Keys and values.
  absl::Status SetItems(NodeId target, absl::Span<const NodeId> pairs);
  absl::Status Build(NodeId target, NodeId state);

  Kind kind(NodeId id) const { return graph_.kind(id); }
  const Graph& graph() const { return graph_; }
  Graph Take(NodeId root);

 private:
  static constexpr NodeId kNoneNode = 0;
  static constexpr NodeId kTrueNode = 1;
  static constexpr NodeId kFalseNode = 2;
  static constexpr NodeId kEmptyTupleNode = 3;

  NodeId Add(Kind kind);
  void AppendItems(NodeId target, absl::Span<const NodeId> items);
  // Keeps a text that the pickle lacks; kDataLoss if such texts outgrow it.
  absl::StatusOr<absl::string_view> Keep(std::string text);
  void SetText(NodeId id, absl::string_view text);
  // A node of that kind with the items of another one, which is left without: in a real pickle that is a temporary, and
  // copies would let a short pickle grow.
  NodeId Taking(Kind kind, NodeId items_of);
  bool MakesDict(NodeId callee) const;
  bool IsTensorCall(NodeId id) const;
  absl::StatusOr<NodeId> CallDict(absl::Span<const NodeId> arguments);
  absl::StatusOr<NodeId> CallEncode(absl::Span<const NodeId> arguments);
  absl::StatusOr<NodeId> CallBytes(absl::Span<const NodeId> arguments);

  Graph graph_;
  absl::flat_hash_map<std::pair<const char*, const char*>, NodeId> globals_;
  uint64_t kept_bytes_ = 0;
};

}  // namespace shardwright::pickle

#endif  // SHARDWRIGHT_CORE_FORMAT_PICKLE_BUILDER_H_
