#include "shardwright/core/format/torch/storage_reference.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/checked_math.h"
#include "shardwright/core/format/torch/dtypes.h"

namespace shardwright::torch_format {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::NodeId;

absl::Status NoReference(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a reference that is no storage: ", what));
}

absl::Span<const NodeId> Parts(const Graph& graph, NodeId node) {
  const NodeId id = graph.kind(node) == Kind::kPersistent ? graph.target(node) : pickle::kNoNode;
  return id != pickle::kNoNode && graph.kind(id) == Kind::kTuple ? graph.items(id) : absl::Span<const NodeId>();
}

bool IsStorageModule(absl::string_view module) {
  return module == "torch" || module == "torch.storage" || module == "torch.cuda";
}

}  // namespace

std::optional<uint64_t> StorageReference::bytes() const {
  return CheckedMultiply<uint64_t>(static_cast<uint64_t>(elements), dtype.has_value() ? ItemSize(*dtype) : 1);
}

absl::StatusOr<StorageReference> ParseStorageReference(const Graph& graph, NodeId node) {
  const absl::Span<const NodeId> parts = Parts(graph, node);
  if (parts.size() < 5 || parts.size() > 6 || graph.String(parts[0]) != "storage") return NoReference("no five parts");
  if (graph.kind(parts[1]) != Kind::kGlobal || !IsStorageModule(graph.module(parts[1])))
    return NoReference("its class");
  const auto key = graph.String(parts[2]);
  if (!key.has_value() || key->empty() || !std::all_of(key->begin(), key->end(), absl::ascii_isdigit)) {
    return NoReference("its key");
  }
  const auto elements = graph.Int(parts[4]);
  if (!elements.has_value() || *elements < 0) return NoReference("its number of elements");
  if (parts.size() == 6 && graph.kind(parts[5]) != Kind::kNone) {
    return absl::UnimplementedError("a storage that is a view of another one, as torch wrote before 2017");
  }
  StorageReference reference{*key, DTypeOfStorage(graph.name(parts[1])), *elements};
  const absl::string_view name = graph.name(parts[1]);
  if (!reference.dtype.has_value() && name != "UntypedStorage" && name != "TypedStorage") {
    return absl::UnimplementedError(absl::StrCat("storages of class ", absl::CHexEscape(name.substr(0, 100))));
  }
  if (!reference.bytes().has_value()) return NoReference("its number of elements overflows");
  return reference;
}

bool IsModuleReference(const Graph& graph, NodeId node) {
  const absl::Span<const NodeId> parts = Parts(graph, node);
  return parts.size() == 4 && graph.String(parts[0]) == "module" && graph.kind(parts[1]) == Kind::kGlobal;
}

}  // namespace shardwright::torch_format
