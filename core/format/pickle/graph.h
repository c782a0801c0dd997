// What a pickle says, as plain data: a graph of values and of calls that nobody makes. Nothing is imported, constructed
// or run; a class stays its name, and a call stays {callee, arguments, state, items}.
//
// Nodes refer to each other by number, so that a graph of any depth, with cycles and with parts shared a billion times,
// is made and destroyed without recursion, in space proportional to the pickle's length.
#ifndef SHARDWRIGHT_CORE_FORMAT_PICKLE_GRAPH_H_
#define SHARDWRIGHT_CORE_FORMAT_PICKLE_GRAPH_H_

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shardwright::pickle {

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = 0xFFFFFFFF;

enum class Kind : uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  // does not fit 64 bits: text holds its two's complement, little-endian
  kFloat,
  kString,  // UTF-8, perhaps with lone surrogates, as Python writes it
  kBytes,   // bytes and bytearray
  kTuple,   // torch.Size is one, too
  kList,
  kDict,  // also OrderedDict, Counter and defaultdict: items are key, value, key, value...
  kSet,
  kGlobal,      // a class or function by name
  kCall,        // callee(arguments), with what was appended to it and its state
  kPersistent,  // a reference that the file's format explains: target is its id
};

// Thread-safe once made (const only). Borrows nothing: keeps the pickle's bytes alive.
class Graph {
 public:
  NodeId root() const { return root_; }
  size_t size() const { return nodes_.size(); }

  Kind kind(NodeId id) const { return nodes_[id].kind; }
  bool boolean(NodeId id) const { return nodes_[id].integer != 0; }
  int64_t integer(NodeId id) const { return nodes_[id].integer; }
  double real(NodeId id) const { return nodes_[id].real; }
  // Of kString, kBytes and kBigInt.
  absl::string_view text(NodeId id) const { return {nodes_[id].text, nodes_[id].length}; }
  // Of kGlobal, under Python 3's names: "builtins".
  absl::string_view module(NodeId id) const;
  absl::string_view name(NodeId id) const;
  // "module.name"; of a call, its callee's.
  std::string GlobalName(NodeId id) const;
  // Elements of tuples, lists and sets; keys and values of dicts; what was appended to or set in a call's object.
  absl::Span<const NodeId> items(NodeId id) const;
  // Whether the items of a call's object are keys and values.
  bool has_pairs(NodeId id) const { return kind(id) == Kind::kCall && nodes_[id].integer == 1; }
  // Of kCall: what is called (a kGlobal or another call) and its arguments; of kPersistent: its id.
  NodeId target(NodeId id) const { return nodes_[id].target; }
  absl::Span<const NodeId> arguments(NodeId id) const;
  // The tuple that holds them.
  NodeId arguments_node(NodeId id) const { return kind(id) == Kind::kCall ? nodes_[id].arguments : kNoNode; }
  // What BUILD gave to the object, or kNoNode.
  NodeId state(NodeId id) const { return nodes_[id].state; }

  bool IsGlobal(NodeId id, absl::string_view module, absl::string_view name) const;
  // A call of that function or class.
  bool IsCall(NodeId id, absl::string_view module, absl::string_view name) const;
  std::optional<int64_t> Int(NodeId id) const;
  std::optional<bool> Bool(NodeId id) const;
  std::optional<absl::string_view> String(NodeId id) const;
  // Integers of a tuple or list; nullopt for anything else, and for more of them than a shape has dimensions.
  std::optional<std::vector<int64_t>> Ints(NodeId id, size_t max_count = 64) const;
  // The value of a string key of a dict, or of an object's state; kNoNode if there is none. Linear.
  NodeId Get(NodeId dict, absl::string_view key) const;
  // The same along a path of keys.
  NodeId Get(NodeId dict, std::initializer_list<absl::string_view> path) const;

  // Every global of the pickle, once each, as "module.name".
  std::vector<std::string> Globals() const;

 private:
  friend class Builder;

  // 32 bytes: a pickle may make one for each of its bytes.
  struct Node {
    union {
      const char* text = nullptr;
      int64_t integer;
      double real;
    };
    uint32_t length = 0;  // of text
    NodeId target = kNoNode;
    NodeId state = kNoNode;
    uint32_t arguments = kNoNode;  // kCall: the tuple of arguments; kGlobal: length of the module's name
    uint32_t items = kNoNode;      // index into items_
    Kind kind = Kind::kNone;
    bool hashable = true;
  };

  std::vector<Node> nodes_;
  std::deque<std::vector<NodeId>> items_;
  std::deque<std::string> texts_;                    // what is not in the pickle as it stands
  std::shared_ptr<const std::string> pickle_bytes_;  // most texts point into it
  NodeId root_ = kNoNode;
};

}  // namespace shardwright::pickle

#endif  // SHARDWRIGHT_CORE_FORMAT_PICKLE_GRAPH_H_
