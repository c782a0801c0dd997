#include "shardwright/core/format/native/native_format.h"

#include <utility>

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/native/native.h"

namespace shardwright {
namespace {

absl::StatusOr<OpenedCheckpoint> Open(Storage& storage, const PathFacts& facts, const OpenOptions& options) {
  OpenedCheckpoint opened;
  opened.format = "native";
  opened.directory = facts.path;
  SW_ASSIGN_OR_RETURN(opened.manifest, OpenManifest(storage, facts.path));
  return opened;
}

}  // namespace

CheckpointFormat NativeFormat() {
  return {"native", [](const PathFacts& facts) { return facts.is_directory && facts.Has(kManifestFileName); }, &Open};
}

}  // namespace shardwright
