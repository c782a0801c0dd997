#include "shardwright/core/format/pickle/builder.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/pickle/globals.h"

namespace shardwright::pickle {
namespace {

constexpr size_t kMaxGlobalBytes = 1024;
// Texts that the pickle does not hold as they stand: names of globals and decoded bytes.
constexpr uint64_t kKeptPerPickleByte = 16;
constexpr uint64_t kKeptAnyway = 64 * 1024;

template <typename... Parts>
absl::Status DataLoss(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}

absl::string_view KindName(Kind kind) {
  constexpr absl::string_view kNames[] = {"None",     "a bool",   "an int",    "an int",     "a float",
                                          "a string", "bytes",    "a tuple",   "a list",     "a dict",
                                          "a set",    "a global", "an object", "a reference"};
  return kNames[static_cast<int>(kind)];
}

// Bytes of the UTF-8 character at the front, 0 if there is none.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F))
    return 0;
  return length;
}

// The bytes that a string stands for whose characters are all below U+0100; nullopt for other strings.
std::optional<std::string> DecodeLatin1(absl::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead < 0x80) {
      bytes.push_back(text[i]);
      continue;
    }
    if (lead > 0xC3) return std::nullopt;
    bytes.push_back(static_cast<char>((lead & 3) << 6 | (static_cast<uint8_t>(text[++i]) & 0x3F)));
  }
  return bytes;
}

}  // namespace

bool IsPythonUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

Builder::Builder(std::shared_ptr<const std::string> bytes) {
  graph_.pickle_bytes_ = std::move(bytes);
  Add(Kind::kNone);
  graph_.nodes_[Add(Kind::kBool)].integer = 1;
  graph_.nodes_[Add(Kind::kBool)].integer = 0;
  Add(Kind::kTuple);
}

NodeId Builder::Add(Kind kind) {
  graph_.nodes_.emplace_back();
  graph_.nodes_.back().kind = kind;
  graph_.nodes_.back().hashable = kind != Kind::kList && kind != Kind::kDict && kind != Kind::kSet;
  return static_cast<NodeId>(graph_.nodes_.size() - 1);
}

NodeId Builder::Int(int64_t value) {
  const NodeId id = Add(Kind::kInt);
  graph_.nodes_[id].integer = value;
  return id;
}

NodeId Builder::Float(double value) {
  const NodeId id = Add(Kind::kFloat);
  graph_.nodes_[id].real = value;
  return id;
}

NodeId Builder::Long(absl::string_view bytes) {
  // Bytes that only repeat the sign say nothing.
  const bool negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
  const char fill = negative ? '\xFF' : '\0';
  while (bytes.size() > 1 && bytes.back() == fill && ((bytes[bytes.size() - 2] & 0x80) != 0) == negative) {
    bytes.remove_suffix(1);
  }
  if (bytes.size() > 8) {
    const NodeId id = Add(Kind::kBigInt);
    SetText(id, bytes);
    return id;
  }
  uint64_t value = negative ? ~uint64_t{0} : 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return Int(static_cast<int64_t>(value));
}

void Builder::SetText(NodeId id, absl::string_view text) {
  graph_.nodes_[id].text = text.data();
  graph_.nodes_[id].length = static_cast<uint32_t>(text.size());
}

absl::StatusOr<NodeId> Builder::String(absl::string_view text) {
  if (!IsPythonUtf8(text)) return DataLoss("a string that is not UTF-8");
  const NodeId id = Add(Kind::kString);
  SetText(id, text);
  return id;
}

NodeId Builder::BytesOf(absl::string_view text) {
  const NodeId id = Add(Kind::kBytes);
  SetText(id, text);
  return id;
}

NodeId Builder::Sequence(Kind kind, absl::Span<const NodeId> items) {
  const NodeId id = Add(kind);
  AppendItems(id, items);
  if (kind != Kind::kTuple) return id;
  graph_.nodes_[id].hashable =
      std::all_of(items.begin(), items.end(), [&](NodeId i) { return graph_.nodes_[i].hashable; });
  return id;
}

absl::StatusOr<absl::string_view> Builder::Keep(std::string text) {
  kept_bytes_ += text.size();
  if (kept_bytes_ > kKeptPerPickleByte * graph_.pickle_bytes_->size() + kKeptAnyway) {
    return DataLoss("names and bytes that are made of others outgrow the pickle");
  }
  return absl::string_view(graph_.texts_.emplace_back(std::move(text)));
}

absl::StatusOr<NodeId> Builder::Global(absl::string_view module, absl::string_view name) {
  // Where the two texts lie tells whether the pair was here before.
  const auto [place, is_new] = globals_.try_emplace(std::make_pair(module.data(), name.data()), kNoNode);
  if (!is_new) return place->second;
  if (module.size() > kMaxGlobalBytes || name.size() > kMaxGlobalBytes ||
      module.find('\n') != absl::string_view::npos) {
    return DataLoss("a global's name of ", module.size(), " + ", name.size(), " bytes");
  }
  const absl::string_view modern = ModernModule(module);
  SW_ASSIGN_OR_RETURN(const absl::string_view text, Keep(absl::StrCat(modern, "\n", name)));
  place->second = Add(Kind::kGlobal);
  SetText(place->second, text);
  graph_.nodes_[place->second].arguments = static_cast<uint32_t>(modern.size());
  return place->second;
}

NodeId Builder::Persistent(NodeId id) {
  const NodeId reference = Add(Kind::kPersistent);
  graph_.nodes_[reference].target = id;
  return reference;
}

NodeId Builder::Taking(Kind kind, NodeId items_of) {
  const NodeId id = Add(kind);
  std::swap(graph_.nodes_[id].items, graph_.nodes_[items_of].items);
  return id;
}

bool Builder::MakesDict(NodeId callee) const {
  const Graph& g = graph_;
  return g.IsGlobal(callee, "collections", "OrderedDict") || g.IsGlobal(callee, "collections", "Counter") ||
         g.IsGlobal(callee, "collections", "defaultdict") || g.IsGlobal(callee, "builtins", "dict");
}

bool Builder::IsTensorCall(NodeId id) const {
  if (kind(id) != Kind::kCall || kind(graph_.target(id)) != Kind::kGlobal) return false;
  const absl::string_view module = graph_.module(graph_.target(id));
  return module == "torch._utils" || module == "torch._tensor";
}

absl::StatusOr<NodeId> Builder::CallDict(absl::Span<const NodeId> arguments) {
  // defaultdict's factory.
  if (!arguments.empty() && kind(arguments[0]) == Kind::kGlobal) arguments.remove_prefix(1);
  if (arguments.empty()) return Add(Kind::kDict);
  if (arguments.size() == 1 && kind(arguments[0]) == Kind::kDict) return Taking(Kind::kDict, arguments[0]);
  if (arguments.size() != 1 || kind(arguments[0]) != Kind::kList) return DataLoss("a dict made of what is no dict");
  // OrderedDict([[key, value], ...]), as Python 2 wrote it. Each pair is there once in a real one.
  const NodeId dict = Add(Kind::kDict);
  const absl::Span<const NodeId> pairs = graph_.items(arguments[0]);
  kept_bytes_ += pairs.size() * sizeof(NodeId) * 2;
  SW_RETURN_IF_ERROR(Keep(""));
  for (const NodeId pair : pairs) {
    if (graph_.items(pair).size() != 2) return DataLoss("a dict made of items that are no pairs");
    const NodeId both[] = {graph_.items(pair)[0], graph_.items(pair)[1]};
    SW_RETURN_IF_ERROR(SetItems(dict, both));
  }
  return dict;
}

absl::StatusOr<NodeId> Builder::CallEncode(absl::Span<const NodeId> arguments) {
  const auto text = arguments.size() == 2 ? graph_.String(arguments[0]) : std::nullopt;
  if (!text.has_value() || graph_.String(arguments[1]) != "latin1") return DataLoss("bytes that are no latin1 string");
  const bool ascii = std::all_of(text->begin(), text->end(), [](char c) { return (c & 0x80) == 0; });
  if (ascii) return BytesOf(*text);
  std::optional<std::string> bytes = DecodeLatin1(*text);
  if (!bytes.has_value()) return DataLoss("bytes that are no latin1 string");
  SW_ASSIGN_OR_RETURN(const absl::string_view kept, Keep(*std::move(bytes)));
  return BytesOf(kept);
}

absl::StatusOr<NodeId> Builder::CallBytes(absl::Span<const NodeId> arguments) {
  if (arguments.empty()) return BytesOf("");
  if (arguments.size() == 1 && kind(arguments[0]) == Kind::kBytes) return BytesOf(graph_.text(arguments[0]));
  return CallEncode(arguments);
}

absl::StatusOr<NodeId> Builder::Call(NodeId callee, NodeId arguments) {
  if (kind(arguments) != Kind::kTuple) return DataLoss("a call with ", KindName(kind(arguments)), " for arguments");
  const bool named = kind(callee) == Kind::kGlobal;
  if (!named && kind(callee) != Kind::kCall && kind(callee) != Kind::kPersistent) {
    return DataLoss("a call of ", KindName(kind(callee)));
  }
  const absl::Span<const NodeId> items = graph_.items(arguments);
  if (named && MakesDict(callee)) return CallDict(items);
  if (graph_.IsGlobal(callee, "_codecs", "encode")) return CallEncode(items);
  if (graph_.IsGlobal(callee, "builtins", "bytes") || graph_.IsGlobal(callee, "builtins", "bytearray")) {
    return CallBytes(items);
  }
  const bool is_set = graph_.IsGlobal(callee, "builtins", "set");
  if (is_set || graph_.IsGlobal(callee, "builtins", "frozenset")) {
    if (items.size() > 1 || (items.size() == 1 && kind(items[0]) != Kind::kList)) return DataLoss("a set of no list");
    const NodeId set = items.empty() ? Add(Kind::kSet) : Taking(Kind::kSet, items[0]);
    graph_.nodes_[set].hashable = !is_set;
    return set;
  }
  if (graph_.IsGlobal(callee, "torch", "Size") && items.size() == 1) {
    if (kind(items[0]) == Kind::kTuple) return items[0];
    if (kind(items[0]) == Kind::kList) return Taking(Kind::kTuple, items[0]);
  }
  const NodeId call = Add(Kind::kCall);
  graph_.nodes_[call].integer = 0;
  graph_.nodes_[call].target = callee;
  graph_.nodes_[call].arguments = arguments;
  return call;
}

void Builder::AppendItems(NodeId target, absl::Span<const NodeId> items) {
  uint32_t& index = graph_.nodes_[target].items;
  if (index == kNoNode) {
    if (items.empty() && kind(target) == Kind::kTuple) return;
    index = static_cast<uint32_t>(graph_.items_.size());
    graph_.items_.emplace_back();
  }
  std::vector<NodeId>& all = graph_.items_[index];
  all.insert(all.end(), items.begin(), items.end());
}

absl::Status Builder::Append(NodeId target, absl::Span<const NodeId> items) {
  if (kind(target) != Kind::kList && (kind(target) != Kind::kCall || IsTensorCall(target))) {
    return DataLoss("items appended to ", KindName(kind(target)));
  }
  if (graph_.has_pairs(target)) return DataLoss("items among keys");
  AppendItems(target, items);
  return absl::OkStatus();
}

absl::Status Builder::AddToSet(NodeId target, absl::Span<const NodeId> items) {
  if (kind(target) != Kind::kSet) return DataLoss("items added to ", KindName(kind(target)), ", which is no set");
  AppendItems(target, items);
  return absl::OkStatus();
}

absl::Status Builder::SetItems(NodeId target, absl::Span<const NodeId> pairs) {
  if (kind(target) != Kind::kDict && (kind(target) != Kind::kCall || IsTensorCall(target))) {
    return DataLoss("items set in ", KindName(kind(target)));
  }
  if (pairs.size() % 2 != 0) return DataLoss("a key without a value");
  for (size_t i = 0; i < pairs.size(); i += 2) {
    if (!graph_.nodes_[pairs[i]].hashable) return DataLoss(KindName(kind(pairs[i])), " for a key");
  }
  if (kind(target) == Kind::kCall) {
    if (graph_.nodes_[target].integer == 0 && !graph_.items(target).empty()) return DataLoss("keys among items");
    graph_.nodes_[target].integer = 1;
  }
  AppendItems(target, pairs);
  return absl::OkStatus();
}

absl::Status Builder::Build(NodeId target, NodeId state) {
  if (kind(target) != Kind::kDict && (kind(target) != Kind::kCall || IsTensorCall(target))) {
    return DataLoss("state for ", kind(target) == Kind::kCall ? "a tensor" : KindName(kind(target)));
  }
  if (graph_.state(target) != kNoNode) return DataLoss("state for an object that has one");
  graph_.nodes_[target].state = state;
  return absl::OkStatus();
}

Graph Builder::Take(NodeId root) {
  graph_.root_ = root;
  return std::move(graph_);
}

}  // namespace shardwright::pickle
