// What a load sees of a checkpoint, and what a module's OnLoadCheckpoint may edit of it: names and metadata, before
// anything is planned or read. The edits of all ranks must be equal; Fingerprint is what they compare.
#ifndef SHARDWRIGHT_CORE_PLAN_LOAD_VIEW_H_
#define SHARDWRIGHT_CORE_PLAN_LOAD_VIEW_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shardwright/core/manifest/manifest.h"

namespace shardwright {

// Makes a tensor's bytes (dense, whole) from the whole bytes of its inputs, in the order named.
using DeriveFunction =
    std::function<absl::Status(const std::vector<absl::Span<const char>>& inputs, absl::Span<char> out)>;

// True for the types that a load converts into each other (F16, BF16, F32, F64), and for equal types.
bool IsCastable(DType from, DType to);

// One visible tensor of the edited checkpoint.
struct ViewTensor {
  TensorMeta meta;     // as the module will see it: name, shape, dtype after Cast
  std::string source;  // name in the manifest (aliases resolved); empty if added or derived
  DType stored_dtype = DType::kInvalid;
  std::string added_bytes;          // Add: the whole tensor
  std::vector<std::string> inputs;  // Derive: manifest names, read whole and under the budget
  DeriveFunction derive;
};

// Thread-compatible. Every edit answers kNotFound for an unknown name and kAlreadyExists for a taken one, and leaves
// the view as it was when it fails. Optimizer state follows its parameter: renaming or dropping a parameter does the
// same to its state, since state is found by the parameter's name.
class LoadView {
 public:
  explicit LoadView(std::shared_ptr<const Manifest> manifest);

  absl::Status Rename(absl::string_view from, absl::string_view to);
  absl::Status Drop(absl::string_view name);
  // Lets the tensor load into `dtype`; without a Cast (or a policy) another dtype is an error. Floating types only.
  absl::Status Cast(absl::string_view name, DType dtype);
  // A whole tensor given by value; `bytes` must have the length of `meta`.
  absl::Status Add(const TensorMeta& meta, absl::Span<const char> bytes);
  // A tensor computed from tensors of the checkpoint (named as stored).
  absl::Status Derive(const TensorMeta& meta, std::vector<std::string> inputs, DeriveFunction fn);

  // Null if absent.
  const ViewTensor* Find(absl::string_view name) const;
  // Sorted by name.
  const std::map<std::string, ViewTensor, std::less<>>& tensors() const { return tensors_; }
  const Manifest& manifest() const { return *manifest_; }
  const std::shared_ptr<const Manifest>& shared_manifest() const { return manifest_; }
  // The saving module's extras, to read.
  const Value::Map& extras() const { return manifest_->data().extras; }

  // Equal views (of a checkpoint of the same step) have equal fingerprints, on every machine. Function bodies are not
  // part of it; their names and inputs are.
  ContentHash Fingerprint() const;

 private:
  // Old and new key of each tensor that a rename moves: the tensor and, of a parameter, its optimizer state.
  using Moves = std::vector<std::pair<std::string, std::string>>;
  Moves MovesOf(const ViewTensor& tensor, absl::string_view to) const;
  std::vector<std::string> StateOf(const ViewTensor& tensor) const;
  absl::Status CheckNew(const TensorMeta& meta, absl::string_view action) const;
  void Insert(ViewTensor tensor);
  ViewTensor Extract(const std::string& name);

  std::shared_ptr<const Manifest> manifest_;
  std::map<std::string, ViewTensor, std::less<>> tensors_;
  // Parameter -> names of its optimizer tensors in tensors_.
  absl::flat_hash_map<std::string, std::vector<std::string>> state_of_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_LOAD_VIEW_H_
