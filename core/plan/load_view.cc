#include "shardwright/core/plan/load_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/checked_math.h"
#include "shardwright/core/plan/canonical_bytes.h"

namespace shardwright {
namespace {

absl::Status Unknown(absl::string_view action, absl::string_view name) {
  return absl::NotFoundError(absl::StrCat(action, " \"", name, "\": the checkpoint's view has no tensor of this name"));
}

absl::Status Taken(absl::string_view action, absl::string_view name, absl::string_view taken) {
  return absl::AlreadyExistsError(
      absl::StrCat(action, " \"", name, "\": the checkpoint's view has a tensor \"", taken, "\" already"));
}

ContentHash HashTensor(const ViewTensor& tensor) {
  CanonicalBytes bytes;
  bytes.Add(tensor.meta);
  bytes.Add(absl::string_view(tensor.source));
  bytes.Add(static_cast<uint64_t>(tensor.stored_dtype));
  bytes.Add(HashContent(tensor.added_bytes));
  bytes.Add(uint64_t{tensor.derive != nullptr});
  bytes.Add(uint64_t{tensor.inputs.size()});
  for (const std::string& input : tensor.inputs) bytes.Add(absl::string_view(input));
  return bytes.Hash();
}

bool IsPlainFloat(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

}  // namespace

bool IsCastable(DType from, DType to) {
  return from == to || (IsPlainFloat(from) && IsPlainFloat(to));
}

LoadView::LoadView(std::shared_ptr<const Manifest> manifest) : manifest_(std::move(manifest)) {
  for (const TensorEntry& entry : manifest_->tensors()) {
    Insert(ViewTensor{entry.meta, manifest_->Resolve(entry).meta.name, entry.meta.dtype, "", {}, nullptr});
  }
}

void LoadView::Insert(ViewTensor tensor) {
  std::string name = tensor.meta.name;
  if (tensor.meta.role == Role::kOptimizer) state_of_[tensor.meta.optimizer.parameter].push_back(name);
  tensors_.insert_or_assign(tensors_.end(), std::move(name), std::move(tensor));
}

ViewTensor LoadView::Extract(const std::string& name) {
  ViewTensor tensor = std::move(tensors_.extract(name).mapped());
  if (tensor.meta.role == Role::kOptimizer) {
    std::vector<std::string>& names = state_of_[tensor.meta.optimizer.parameter];
    names.erase(std::remove(names.begin(), names.end(), name), names.end());
  }
  return tensor;
}

std::vector<std::string> LoadView::StateOf(const ViewTensor& tensor) const {
  const auto state = state_of_.find(tensor.meta.name);
  if (tensor.meta.role == Role::kOptimizer || state == state_of_.end()) return {};
  return state->second;
}

LoadView::Moves LoadView::MovesOf(const ViewTensor& tensor, absl::string_view to) const {
  Moves moves = {{tensor.meta.name, std::string(to)}};
  for (const std::string& name : StateOf(tensor)) {
    OptimizerField field = tensors_.find(name)->second.meta.optimizer;
    field.parameter = std::string(to);
    moves.emplace_back(name, OptimizerTensorName(field));
  }
  return moves;
}

absl::Status LoadView::Rename(absl::string_view from, absl::string_view to) {
  const ViewTensor* tensor = Find(from);
  if (tensor == nullptr) return Unknown("renaming", from);
  if (to.empty()) return absl::InvalidArgumentError(absl::StrCat("renaming \"", from, "\": the new name is empty"));
  const Moves moves = MovesOf(*tensor, to);
  for (const auto& [name, new_name] : moves) {
    if (Find(new_name) != nullptr) return Taken("renaming", from, new_name);
  }
  for (const auto& [name, new_name] : moves) {
    ViewTensor moved = Extract(name);
    if (name != moves.front().first) moved.meta.optimizer.parameter = std::string(to);
    moved.meta.name = new_name;
    Insert(std::move(moved));
  }
  return absl::OkStatus();
}

absl::Status LoadView::Drop(absl::string_view name) {
  const ViewTensor* tensor = Find(name);
  if (tensor == nullptr) return Unknown("dropping", name);
  for (const std::string& state : StateOf(*tensor)) Extract(state);
  Extract(std::string(name));
  return absl::OkStatus();
}

absl::Status LoadView::Cast(absl::string_view name, DType dtype) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return Unknown("casting", name);
  ViewTensor& tensor = found->second;
  if (!IsCastable(tensor.stored_dtype, dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("casting \"", name, "\" from ", DTypeName(tensor.stored_dtype),
                                                   " to ", DTypeName(dtype), ": only F16, BF16, F32 and F64 convert"));
  }
  tensor.meta.dtype = dtype;
  return absl::OkStatus();
}

absl::Status LoadView::CheckNew(const TensorMeta& meta, absl::string_view action) const {
  const std::optional<int64_t> elements = CheckedElements(meta.shape);
  if (meta.name.empty() || ItemSize(meta.dtype) == 0 || !elements ||
      !CheckedMultiply(*elements, ItemSize(meta.dtype))) {
    return absl::InvalidArgumentError(absl::StrCat(action, " \"", meta.name, "\": name, dtype or shape ",
                                                   ShapeToString(meta.shape), " is not valid"));
  }
  return Find(meta.name) == nullptr ? absl::OkStatus() : Taken(action, meta.name, meta.name);
}

absl::Status LoadView::Add(const TensorMeta& meta, absl::Span<const char> bytes) {
  if (absl::Status status = CheckNew(meta, "adding"); !status.ok()) return status;
  if (bytes.size() != static_cast<size_t>(meta.bytes())) {
    return absl::InvalidArgumentError(absl::StrCat("adding \"", meta.name, "\": ", DTypeName(meta.dtype),
                                                   ShapeToString(meta.shape), " has ", meta.bytes(), " bytes, got ",
                                                   bytes.size()));
  }
  Insert(ViewTensor{meta, "", meta.dtype, std::string(bytes.data(), bytes.size()), {}, nullptr});
  return absl::OkStatus();
}

absl::Status LoadView::Derive(const TensorMeta& meta, std::vector<std::string> inputs, DeriveFunction fn) {
  if (absl::Status status = CheckNew(meta, "deriving"); !status.ok()) return status;
  if (fn == nullptr) return absl::InvalidArgumentError(absl::StrCat("deriving \"", meta.name, "\": no function given"));
  for (const std::string& input : inputs) {
    if (manifest_->Find(input) != nullptr) continue;
    return absl::NotFoundError(
        absl::StrCat("deriving \"", meta.name, "\": the checkpoint has no tensor \"", input, "\" to derive it from"));
  }
  Insert(ViewTensor{meta, "", meta.dtype, "", std::move(inputs), std::move(fn)});
  return absl::OkStatus();
}

const ViewTensor* LoadView::Find(absl::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

ContentHash LoadView::Fingerprint() const {
  CanonicalBytes bytes;
  const TrainingProgress& progress = manifest_->data().progress;
  bytes.Add(static_cast<uint64_t>(progress.step));
  bytes.Add(static_cast<uint64_t>(progress.epoch));
  bytes.Add(static_cast<uint64_t>(progress.samples_seen));
  for (const auto& [name, tensor] : tensors_) bytes.Add(HashTensor(tensor));
  return bytes.Hash();
}

}  // namespace shardwright
