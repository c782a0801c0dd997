// The references from a torch pickle to the storages beside it: ("storage", class, key, location, numel).
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_STORAGE_REFERENCE_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_STORAGE_REFERENCE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/pickle/graph.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright::torch_format {

struct StorageReference {
  absl::string_view key;       // decimal digits; in the graph's bytes
  std::optional<DType> dtype;  // nullopt: untyped, counted in bytes
  int64_t elements = 0;

  // nullopt if that overflows.
  std::optional<uint64_t> bytes() const;
};

// kDataLoss unless the node is such a reference.
absl::StatusOr<StorageReference> ParseStorageReference(const pickle::Graph& graph, pickle::NodeId node);

// True for ("module", class, source file, source), by which old files name the class of a saved module.
bool IsModuleReference(const pickle::Graph& graph, pickle::NodeId node);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_STORAGE_REFERENCE_H_
