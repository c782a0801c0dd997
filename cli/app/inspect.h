// What is in a checkpoint, as values to print. Reads the manifest alone.
#ifndef SHARDWRIGHT_CLI_APP_INSPECT_H_
#define SHARDWRIGHT_CLI_APP_INSPECT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright::app {

// Tensors of one role and dtype together.
struct TensorGroup {
  Role role = Role::kParameter;
  DType dtype = DType::kInvalid;
  int64_t tensors = 0;
  int64_t elements = 0;
  uint64_t bytes = 0;
};

struct Inspection {
  std::string path;
  std::shared_ptr<const Manifest> manifest;
  int64_t parameters = 0;  // elements of all parameters, tied ones once
  int64_t parameter_tensors = 0;
  std::vector<TensorGroup> groups;                        // by role, then dtype
  std::vector<std::pair<std::string, std::string>> tied;  // alias, tensor
  std::vector<std::string> opaque;                        // classes of opaque extras, sorted
  std::string optimizer;                                  // "adamw"; empty if unknown
  bool has_checksums = true;
};

absl::StatusOr<Inspection> Inspect(Storage& storage, absl::string_view path);

}  // namespace shardwright::app

#endif  // SHARDWRIGHT_CLI_APP_INSPECT_H_
