#include "shardwright/core/format/dcp/dcp_metadata.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/pickle/globals.h"
#include "shardwright/core/format/pickle/graph.h"
#include "shardwright/core/format/pickle/machine.h"
#include "shardwright/core/format/torch/dtypes.h"

namespace shardwright::dcp {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::kNoNode;
using pickle::NodeId;

constexpr absl::string_view kModule = "torch.distributed.checkpoint.metadata";
constexpr absl::string_view kStorageModule = "torch.distributed.checkpoint.filesystem";

std::string Quote(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)), "\"");
}

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(".metadata: ", what));
}

// No part of it leads anywhere else.
bool IsPlainName(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == absl::string_view::npos &&
         name.find('\\') == absl::string_view::npos && name.find('\0') == absl::string_view::npos;
}

class Parser {
 public:
  Parser(const Graph& graph, Metadata& metadata) : graph_(graph), metadata_(metadata) {}

  absl::Status Run() {
    if (!graph_.IsCall(graph_.root(), kModule, "Metadata")) return Malformed("no Metadata object");
    SW_RETURN_IF_ERROR(Entries("state_dict_metadata", true, [&](NodeId k, NodeId v) { return AddEntry(k, v); }));
    SW_RETURN_IF_ERROR(Entries("storage_data", true, [&](NodeId k, NodeId v) { return AddItem(k, v); }));
    return Entries("planner_data", false, [&](NodeId k, NodeId v) { return AddPath(k, v); });
  }

 private:
  template <typename Fn>
  absl::Status Entries(absl::string_view key, bool required, const Fn& fn) {
    const NodeId dict = graph_.Get(graph_.root(), key);
    if (dict == kNoNode || graph_.kind(dict) != Kind::kDict) {
      return required ? Malformed(absl::StrCat("no dict ", key)) : absl::OkStatus();
    }
    const absl::Span<const NodeId> pairs = graph_.items(dict);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) SW_RETURN_IF_ERROR(fn(pairs[i], pairs[i + 1]));
    return absl::OkStatus();
  }

  absl::Status AddEntry(NodeId key, NodeId value) {
    const auto name = graph_.String(key);
    if (!name.has_value()) return Malformed("an entry without a name");
    if (graph_.IsCall(value, kModule, "BytesStorageMetadata")) {
      metadata_.bytes.emplace(*name);
      return absl::OkStatus();
    }
    if (!graph_.IsCall(value, kModule, "TensorStorageMetadata")) {
      return Malformed(absl::StrCat(Quote(*name), " is neither tensor nor bytes"));
    }
    SW_RETURN_IF_ERROR(AddTensor(std::string(*name), value)) << Quote(*name);
    return absl::OkStatus();
  }

  absl::Status AddTensor(const std::string& name, NodeId value) {
    SW_ASSIGN_OR_RETURN(const DType dtype, ParseProperties(graph_.Get(value, "properties")));
    const auto shape = graph_.Ints(graph_.Get(value, "size"));
    const NodeId chunks = graph_.Get(value, "chunks");
    if (!shape.has_value() || chunks == kNoNode || graph_.kind(chunks) != Kind::kList)
      return Malformed("no size or chunks");
    const auto [place, is_new] = metadata_.tensors.try_emplace(name, StoredTensor{dtype, *shape, {}});
    StoredTensor& tensor = place->second;
    // The parts that ranks list for themselves are of one tensor.
    if (tensor.dtype != dtype || tensor.shape != *shape) return Malformed("ranks do not agree on type and size");
    for (const NodeId chunk : graph_.items(chunks)) {
      auto offset = graph_.Ints(graph_.Get(chunk, "offsets"));
      auto size = graph_.Ints(graph_.Get(chunk, "sizes"));
      if (!offset.has_value() || !size.has_value()) return Malformed("a chunk without offsets or sizes");
      Box box{*std::move(offset), *std::move(size)};
      if (absl::Status status = ValidateBox(box, tensor.shape); !status.ok())
        return absl::DataLossError(status.message());
      if (!box.empty()) tensor.chunks.push_back(std::move(box));
    }
    return absl::OkStatus();
  }

  // Its state is a tuple that begins with the type; what follows does not touch the bytes.
  absl::StatusOr<DType> ParseProperties(NodeId properties) {
    if (properties == kNoNode || graph_.kind(properties) != Kind::kCall) return Malformed("no properties");
    const NodeId state = graph_.state(properties);
    NodeId dtype = graph_.Get(properties, "dtype");
    if (state != kNoNode && graph_.kind(state) == Kind::kTuple && !graph_.items(state).empty()) {
      dtype = graph_.items(state)[0];
    }
    if (dtype == kNoNode || graph_.kind(dtype) != Kind::kGlobal || graph_.module(dtype) != "torch") {
      return Malformed("no element type");
    }
    const auto parsed = torch_format::DTypeOfTorch(graph_.name(dtype));
    if (parsed.has_value()) return *parsed;
    return absl::UnimplementedError(absl::StrCat("element type ", absl::CHexEscape(graph_.name(dtype).substr(0, 100))));
  }

  absl::Status AddItem(NodeId key, NodeId value) {
    const auto name =
        graph_.IsCall(key, kModule, "MetadataIndex") ? graph_.String(graph_.Get(key, "fqn")) : std::nullopt;
    if (!name.has_value() || !graph_.IsCall(value, kStorageModule, "_StorageInfo"))
      return Malformed("a malformed item");
    std::vector<int64_t> offsets;
    const NodeId offset = graph_.Get(key, "offset");
    if (offset != kNoNode && graph_.kind(offset) != Kind::kNone) {
      auto parsed = graph_.Ints(offset);
      if (!parsed.has_value()) return Malformed("an item's malformed offset");
      offsets = *std::move(parsed);
    }
    SW_ASSIGN_OR_RETURN(StoredItem item, ParseItem(value), _ << "item of " << Quote(*name));
    metadata_.items.insert_or_assign({std::string(*name), std::move(offsets)}, std::move(item));
    return absl::OkStatus();
  }

  absl::StatusOr<StoredItem> ParseItem(NodeId value) {
    const auto path = graph_.String(graph_.Get(value, "relative_path"));
    const auto offset = graph_.Int(graph_.Get(value, "offset"));
    const auto length = graph_.Int(graph_.Get(value, "length"));
    if (!path.has_value() || !offset.has_value() || !length.has_value() || *offset < 0 || *length < 0) {
      return Malformed("no path, or a negative offset or length");
    }
    if (!IsPlainName(*path)) return Malformed(absl::StrCat("path ", Quote(*path), " leads out of the folder"));
    StoredItem item{std::string(*path), static_cast<uint64_t>(*offset), static_cast<uint64_t>(*length), {}};
    const NodeId transforms = graph_.Get(value, "transform_descriptors");
    if (transforms == kNoNode || graph_.kind(transforms) == Kind::kNone) return item;
    for (const NodeId transform : graph_.items(transforms)) {
      const auto descriptor = graph_.String(transform);
      if (!descriptor.has_value() || item.transforms.size() >= kMaxTransforms) return Malformed("malformed transforms");
      item.transforms.emplace_back(*descriptor);
    }
    return item;
  }

  absl::Status AddPath(NodeId key, NodeId value) {
    const auto name = graph_.String(key);
    if (!name.has_value() || (graph_.kind(value) != Kind::kTuple && graph_.kind(value) != Kind::kList) ||
        graph_.items(value).size() > kMaxPathParts) {
      return absl::OkStatus();
    }
    std::vector<PathPart> path;
    for (const NodeId part : graph_.items(value)) {
      if (const auto text = graph_.String(part)) path.push_back({std::string(*text), false});
      if (const auto index = graph_.Int(part)) path.push_back({absl::StrCat(*index), true});
    }
    metadata_.paths.insert_or_assign(std::string(*name), std::move(path));
    return absl::OkStatus();
  }

  static constexpr size_t kMaxTransforms = 8;
  static constexpr size_t kMaxPathParts = 40;
  const Graph& graph_;
  Metadata& metadata_;
};

}  // namespace

absl::Status ParseMetadata(std::string pickle_bytes, Metadata& metadata) {
  absl::StatusOr<pickle::Parsed> parsed = pickle::Parse(std::make_shared<const std::string>(std::move(pickle_bytes)));
  if (absl::IsOutOfRange(parsed.status())) return Malformed(parsed.status().message());
  SW_RETURN_IF_ERROR(parsed.status());
  SW_RETURN_IF_ERROR(pickle::CheckHarmless(parsed->graph));
  return Parser(parsed->graph, metadata).Run();
}

}  // namespace shardwright::dcp
