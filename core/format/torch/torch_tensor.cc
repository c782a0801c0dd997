#include "shardwright/core/format/torch/torch_tensor.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/checked_math.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/torch/dtypes.h"
#include "shardwright/core/format/torch/storage_reference.h"

namespace shardwright::torch_format {
namespace {

using pickle::Graph;
using pickle::Kind;
using pickle::kNoNode;
using pickle::NodeId;

constexpr int kMaxWrappers = 16;
constexpr size_t kMaxMetadataItems = 16;

absl::Status Malformed(absl::string_view function) {
  return absl::DataLossError(absl::StrCat("a tensor whose call of ", function, " is malformed"));
}

// What the bytes of a quantised tensor mean.
absl::StatusOr<Value> ParseQuantizer(const Graph& graph, NodeId node) {
  const absl::Span<const NodeId> parts =
      graph.kind(node) == Kind::kTuple ? graph.items(node) : absl::Span<const NodeId>();
  if (parts.size() < 3 || graph.kind(parts[0]) != Kind::kGlobal) return Malformed("_rebuild_qtensor");
  Value::Map quantizer = {{"scheme", std::string(graph.name(parts[0]))}};
  if (graph.kind(parts[1]) == Kind::kFloat) quantizer["scale"] = graph.real(parts[1]);
  if (const auto zero_point = graph.Int(parts[2])) quantizer["zero_point"] = *zero_point;
  if (parts.size() > 3 && graph.Int(parts[3]).has_value()) quantizer["axis"] = *graph.Int(parts[3]);
  return Value(std::move(quantizer));
}

// Where the last element is, plus one; nullopt if that overflows or a number is negative. Empty tensors reach nowhere.
std::optional<int64_t> EndOf(const TorchTensor& tensor) {
  if (tensor.offset < 0 || tensor.stride.size() != tensor.shape.size()) return std::nullopt;
  std::optional<int64_t> last = tensor.offset;
  bool empty = false;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] < 0 || tensor.stride[d] < 0) return std::nullopt;
    if (tensor.shape[d] == 0) {
      empty = true;
      continue;
    }
    const auto reach = CheckedMultiply(tensor.shape[d] - 1, tensor.stride[d]);
    if (!reach.has_value()) return std::nullopt;
    last = CheckedAdd(*last, *reach);
    if (!last.has_value()) return std::nullopt;
  }
  return empty ? 0 : CheckedAdd<int64_t>(*last, 1);
}

absl::Status CheckGeometry(const TorchFile& file, const TorchTensor& tensor) {
  Shape with_items = tensor.shape;
  with_items.push_back(ItemSize(tensor.dtype));
  const std::optional<int64_t> end = EndOf(tensor);
  if (!end.has_value() || !CheckedElements(with_items).has_value()) {
    return absl::DataLossError(absl::StrCat("a tensor of shape ", ShapeToString(tensor.shape), " and strides ",
                                            ShapeToString(tensor.stride), " at ", tensor.offset, " is impossible"));
  }
  const auto storage = file.storages.find(tensor.storage_key);
  if (storage == file.storages.end()) {
    return absl::DataLossError(absl::StrCat("a tensor of storage ", tensor.storage_key, ", which the file lacks"));
  }
  const int64_t elements = static_cast<int64_t>(storage->second.bytes) / ItemSize(tensor.dtype);
  if (*end <= elements) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a tensor of shape ", ShapeToString(tensor.shape), " reaches element ", *end,
                                          " of storage ", tensor.storage_key, ", which has ", elements));
}

absl::Status ParseMetadata(const Graph& graph, NodeId metadata, TorchTensor& tensor) {
  if (graph.kind(metadata) == Kind::kNone) return absl::OkStatus();
  if (graph.kind(metadata) != Kind::kDict || graph.items(metadata).size() > kMaxMetadataItems) {
    return Malformed("_rebuild_tensor_v2");
  }
  tensor.conjugate = graph.Bool(graph.Get(metadata, "conj")).value_or(false);
  tensor.negative = graph.Bool(graph.Get(metadata, "neg")).value_or(false);
  return absl::OkStatus();
}

// Reads storage, offset, size and stride; the type is the storage's where it has one.
absl::StatusOr<TorchTensor> ParseView(const Graph& graph, absl::Span<const NodeId> arguments,
                                      absl::string_view function) {
  if (arguments.size() < 4) return Malformed(function);
  SW_ASSIGN_OR_RETURN(const StorageReference reference, ParseStorageReference(graph, arguments[0]));
  const auto offset = graph.Int(arguments[1]);
  auto shape = graph.Ints(arguments[2]);
  auto stride = graph.Ints(arguments[3]);
  if (!offset.has_value() || !shape.has_value() || !stride.has_value()) return Malformed(function);
  TorchTensor tensor;
  tensor.storage_key = reference.key;
  tensor.dtype = reference.dtype.value_or(DType::kInvalid);
  tensor.offset = *offset;
  tensor.shape = *std::move(shape);
  tensor.stride = *std::move(stride);
  return tensor;
}

absl::StatusOr<TorchTensor> ParsePlain(const Graph& graph, absl::string_view function,
                                       absl::Span<const NodeId> arguments) {
  SW_ASSIGN_OR_RETURN(TorchTensor tensor, ParseView(graph, arguments, function));
  size_t metadata = 6;
  if (function == "_rebuild_tensor_v3") {
    if (arguments.size() < 7 || graph.kind(arguments[6]) != Kind::kGlobal) return Malformed(function);
    const absl::string_view name = graph.name(arguments[6]);
    const auto dtype = DTypeOfTorch(name);
    if (!dtype.has_value()) {
      return absl::UnimplementedError(absl::StrCat("tensors of type ", absl::CHexEscape(name.substr(0, 100))));
    }
    tensor.dtype = *dtype;
    metadata = 7;
  }
  if (function == "_rebuild_qtensor") {
    if (arguments.size() < 6) return Malformed(function);
    SW_ASSIGN_OR_RETURN(tensor.quantizer, ParseQuantizer(graph, arguments[4]));
    tensor.requires_grad = graph.Bool(arguments[5]);
  } else {
    if (arguments.size() > 4) tensor.requires_grad = graph.Bool(arguments[4]);
    if (arguments.size() > metadata) {
      SW_RETURN_IF_ERROR(ParseMetadata(graph, arguments[metadata], tensor));
    }
  }
  if (tensor.dtype == DType::kInvalid) return Malformed(function);
  return tensor;
}

bool IsPlain(absl::string_view function) {
  return function == "_rebuild_tensor" || function == "_rebuild_tensor_v2" || function == "_rebuild_tensor_v3" ||
         function == "_rebuild_qtensor";
}

// A call: function and arguments, wherever they were written.
struct CallOf {
  NodeId function = kNoNode;
  absl::Span<const NodeId> arguments;
};

std::optional<CallOf> CallAt(const Graph& graph, NodeId node) {
  if (node == kNoNode || graph.kind(node) != Kind::kCall) return std::nullopt;
  return CallOf{graph.target(node), graph.arguments(node)};
}

}  // namespace

absl::StatusOr<std::optional<TorchTensor>> AsTensor(const TorchFile& file, NodeId node) {
  const Graph& graph = file.graph;
  std::optional<CallOf> call = CallAt(graph, node);
  std::optional<bool> requires_grad;
  bool is_parameter = false;
  for (int depth = 0; call.has_value() && depth < kMaxWrappers; ++depth) {
    if (graph.kind(call->function) != Kind::kGlobal) return std::nullopt;
    const absl::string_view module = graph.module(call->function);
    const absl::string_view name = graph.name(call->function);
    if (module == "torch._tensor" && name == "_rebuild_from_type_v2") {
      if (call->arguments.size() != 4 || graph.kind(call->arguments[2]) != Kind::kTuple) return Malformed(name);
      call = CallOf{call->arguments[0], graph.items(call->arguments[2])};
      continue;
    }
    if (module != "torch._utils") return std::nullopt;
    if (name == "_rebuild_parameter" || name == "_rebuild_parameter_with_state") {
      if (call->arguments.size() < 2) return Malformed(name);
      is_parameter = true;
      requires_grad = graph.Bool(call->arguments[1]);
      call = CallAt(graph, call->arguments[0]);
      continue;
    }
    if (!IsPlain(name)) return std::nullopt;
    SW_ASSIGN_OR_RETURN(TorchTensor tensor, ParsePlain(graph, name, call->arguments));
    tensor.is_parameter = is_parameter;
    if (is_parameter) tensor.requires_grad = requires_grad;
    SW_RETURN_IF_ERROR(CheckGeometry(file, tensor));
    return std::optional<TorchTensor>(std::move(tensor));
  }
  return std::nullopt;
}

absl::Status CheckReferences(const TorchFile& file, bool modules) {
  for (NodeId id = 0; id < file.graph.size(); ++id) {
    if (file.graph.kind(id) != Kind::kPersistent || (modules && IsModuleReference(file.graph, id))) continue;
    SW_ASSIGN_OR_RETURN(const StorageReference reference, ParseStorageReference(file.graph, id));
    const auto storage = file.storages.find(reference.key);
    if (storage == file.storages.end()) {
      return absl::DataLossError(absl::StrCat("storage ", reference.key, " is missing in the file"));
    }
    if (storage->second.bytes == *reference.bytes()) continue;
    return absl::DataLossError(
        absl::StrCat("storage ", reference.key, " has ", storage->second.bytes, " bytes, want ", *reference.bytes()));
  }
  return absl::OkStatus();
}

bool IsDense(const Shape& shape, const std::vector<int64_t>& stride) {
  int64_t want = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 0) return true;
  }
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && stride[d] != want) return false;
    want *= shape[d];
  }
  return true;
}

}  // namespace shardwright::torch_format
