// What a path on the command line means: a checkpoint, or a run's directory whose newest checkpoint is meant.
#ifndef SHARDWRIGHT_CLI_APP_LOCATE_H_
#define SHARDWRIGHT_CLI_APP_LOCATE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright::app {

struct LocatedCheckpoint {
  std::string path;
  std::shared_ptr<const Manifest> manifest;
};

// Opens the checkpoint at `path`, or the newest one of the run directory at `path`. kNotFound saying what is missing;
// kFailedPrecondition for an unfinished save; otherwise as OpenManifest.
absl::StatusOr<LocatedCheckpoint> LocateCheckpoint(Storage& storage, absl::string_view path);

// The checkpoint itself, or every checkpoint and unfinished save of a run directory, by name.
absl::StatusOr<std::vector<std::string>> ExpandRunDirectory(Storage& storage, absl::string_view path);

}  // namespace shardwright::app

#endif  // SHARDWRIGHT_CLI_APP_LOCATE_H_
