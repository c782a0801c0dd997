#include "shardwright/core/format/torch/extras.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/format/torch/object_walk.h"

namespace shardwright::torch_format {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::kNoNode;
using pickle::NodeId;

// Extras nest at most 64 deep; a few levels are left to whoever puts these into others.
constexpr int kMaxDepth = 48;
constexpr size_t kValuesAnyway = 10'000;
constexpr size_t kBytesPerNode = 64;
constexpr size_t kBytesAnyway = 1 << 20;
constexpr absl::string_view kClassKey = "__class__";
constexpr absl::string_view kArgumentsKey = "__args__";
constexpr absl::string_view kItemsKey = "__items__";

// Decimal digits of an integer of up to 16 bytes: seeds are 64-bit unsigned.
std::optional<std::string> BigIntText(absl::string_view bytes) {
  if (bytes.size() > 16) return std::nullopt;
  const bool negative = (bytes.back() & 0x80) != 0;
  unsigned __int128 value = negative ? ~static_cast<unsigned __int128>(0) : 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  if (negative) value = -value;
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value != 0);
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

class Converter {
 public:
  Converter(const Graph& graph, const TensorNames& names)
      : graph_(graph),
        names_(names),
        values_left_(kValuesAnyway + 2 * graph.size()),
        bytes_left_(kBytesAnyway + kBytesPerNode * graph.size()) {}

  // nullopt: left out.
  std::optional<Value> Convert(NodeId node, int depth) {
    if (depth > kMaxDepth || values_left_ == 0) return Value(OpaqueObject{"..."});
    --values_left_;
    if (const auto name = names_.find(node); name != names_.end()) return Value(TensorReference{name->second});
    switch (graph_.kind(node)) {
      case Kind::kNone:
        return Value();
      case Kind::kBool:
        return Value(graph_.boolean(node));
      case Kind::kInt:
        return Value(graph_.integer(node));
      case Kind::kFloat:
        return Value(graph_.real(node));
      case Kind::kBigInt: {
        std::optional<std::string> digits = BigIntText(graph_.text(node));
        return digits.has_value() ? Value(*std::move(digits)) : Value(OpaqueObject{"builtins.int"});
      }
      case Kind::kString:
      case Kind::kBytes:
        return Text(node);
      case Kind::kTuple:
      case Kind::kList:
      case Kind::kSet:
        return Items(graph_.items(node), depth);
      case Kind::kDict: {
        Value::Map map;
        return Pairs(graph_.items(node), depth, map) ? std::optional<Value>(std::move(map)) : std::nullopt;
      }
      case Kind::kGlobal:
        return Value(OpaqueObject{graph_.GlobalName(node)});
      case Kind::kCall:
        return Object(node, depth);
      case Kind::kPersistent:
        return Value(OpaqueObject{"storage"});
    }
    return std::nullopt;
  }

  // False if there was something, and all of it was left out.
  bool Pairs(absl::Span<const NodeId> pairs, int depth, Value::Map& map) {
    const size_t before = map.size();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (values_left_ == 0) break;
      std::optional<Value> value = Convert(pairs[i + 1], depth + 1);
      if (value.has_value() && Afford(KeyText(graph_, pairs[i]).size())) {
        map.emplace(KeyText(graph_, pairs[i]), *std::move(value));
      }
    }
    return pairs.empty() || map.size() > before;
  }

 private:
  bool Afford(size_t bytes) {
    if (bytes > bytes_left_) return false;
    bytes_left_ -= bytes;
    return true;
  }

  Value Text(NodeId node) {
    const absl::string_view text = graph_.text(node);
    if (!Afford(text.size())) return OpaqueObject{"..."};
    return graph_.kind(node) == Kind::kString ? Value(std::string(text)) : Value(Bytes{std::string(text)});
  }

  std::optional<Value> Items(absl::Span<const NodeId> items, int depth) {
    Value::List list;
    for (const NodeId item : items) {
      if (values_left_ == 0) break;
      std::optional<Value> value = Convert(item, depth + 1);
      if (value.has_value()) list.push_back(*std::move(value));
    }
    if (list.empty() && !items.empty()) return std::nullopt;
    return Value(std::move(list));
  }

  std::optional<Value> Object(NodeId node, int depth) {
    if (IsTensor(node)) return std::nullopt;
    const std::string name = graph_.GlobalName(node);
    Value::Map map;
    if (!graph_.arguments(node).empty()) {
      std::optional<Value> arguments = Items(graph_.arguments(node), depth + 1);
      if (arguments.has_value()) map.emplace(kArgumentsKey, *std::move(arguments));
    }
    if (graph_.has_pairs(node)) {
      Pairs(graph_.items(node), depth, map);
    } else if (!graph_.items(node).empty()) {
      std::optional<Value> items = Items(graph_.items(node), depth + 1);
      if (items.has_value()) map.emplace(kItemsKey, *std::move(items));
    }
    AddState(graph_.state(node), depth, map);
    if (map.empty()) return Value(OpaqueObject{name});
    map.insert_or_assign(std::string(kClassKey), OpaqueObject{name});
    return Value(std::move(map));
  }

  void AddState(NodeId state, int depth, Value::Map& map) {
    if (state == kNoNode) return;
    if (graph_.kind(state) == Kind::kDict) {
      Pairs(graph_.items(state), depth, map);
    } else if (graph_.kind(state) == Kind::kTuple) {
      for (const NodeId part : graph_.items(state)) {
        if (graph_.kind(part) == Kind::kDict) Pairs(graph_.items(part), depth, map);
      }
    }
  }

  bool IsTensor(NodeId node) const {
    const NodeId callee = graph_.target(node);
    return graph_.kind(callee) == Kind::kGlobal && absl::StartsWith(graph_.name(callee), "_rebuild_") &&
           (graph_.module(callee) == "torch._utils" || graph_.module(callee) == "torch._tensor");
  }

  const Graph& graph_;
  const TensorNames& names_;
  size_t values_left_;
  size_t bytes_left_;
};

// Globals that readers here give a meaning to.
bool IsKnown(absl::string_view module) {
  return module == "torch" || module == "torch._utils" || module == "torch._tensor" || module == "torch.storage" ||
         module == "torch.serialization" || module == "torch.nn.parameter" || module == "collections" ||
         module == "builtins" || module == "_codecs" || absl::StartsWith(module, "torch.distributed.checkpoint");
}

}  // namespace

Value ToValue(const Graph& graph, NodeId node, const TensorNames& names) {
  return Converter(graph, names).Convert(node, 1).value_or(Value());
}

Value::Map ToExtras(const Graph& graph, NodeId node, const TensorNames& names,
                    const std::vector<std::string>& skipped) {
  Value::Map map;
  if (graph.kind(node) != Kind::kDict) return map;
  Converter converter(graph, names);
  const absl::Span<const NodeId> pairs = graph.items(node);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string key = KeyText(graph, pairs[i]);
    if (std::find(skipped.begin(), skipped.end(), key) == skipped.end()) converter.Pairs(pairs.subspan(i, 2), 1, map);
  }
  return map;
}

std::vector<std::string> UnknownClasses(const Graph& graph) {
  std::vector<std::string> unknown;
  for (const std::string& name : graph.Globals()) {
    if (!IsKnown(absl::string_view(name).substr(0, name.rfind('.')))) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace shardwright::torch_format
