// The native checkpoint: a directory with manifest.pb beside safetensors data files. docs/format.md specifies it.
#ifndef SHARDWRIGHT_CORE_FORMAT_NATIVE_NATIVE_H_
#define SHARDWRIGHT_CORE_FORMAT_NATIVE_NATIVE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/safetensors/header.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/plan/save_plan.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

// Reads and validates manifest.pb of a checkpoint directory. kNotFound if there is no such directory;
// kFailedPrecondition if it is an unfinished save (a directory without manifest); kDataLoss, kUnimplemented as
// DecodeManifest.
absl::StatusOr<std::shared_ptr<const Manifest>> OpenManifest(Storage& storage, absl::string_view directory);

// The safetensors header of a planned data file: entries, "format": "pt", and the boxes as JSON.
absl::StatusOr<std::string> NativeFileHeader(const SavePlan& plan, const PlannedFile& file);

// Directory names. Real checkpoints: step-%08d, or step-%08d-vN when a step is saved again; temporaries:
// .tmp-<name>-<nonce>.
std::string StepDirectoryName(int64_t step, int32_t version = 0);
struct StepDirectory {
  int64_t step = 0;
  int32_t version = 0;
};
// nullopt unless the whole name has the form above.
std::optional<StepDirectory> ParseStepDirectoryName(absl::string_view name);
std::string TemporaryDirectoryName(absl::string_view name, absl::string_view nonce);
bool IsTemporaryName(absl::string_view name);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_NATIVE_NATIVE_H_
