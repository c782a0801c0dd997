// A run's directory: its checkpoints, which of them is the newest intact one, the `last` link, and what a crash left.
//
//   runs/demo/
//     .lock                     host, pid of the run that owns it
//     step-00000100/            a checkpoint
//     step-00000200/
//     last -> step-00000200     relative symlink, made aside and renamed
//     .tmp-step-00000300-8f2c/  a save that was cut off; removed by the next run
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_RUN_DIRECTORY_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_RUN_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

struct RunCheckpoint {
  std::string path;
  int64_t step = 0;
  int32_t version = 0;
};

// Committed checkpoints, newest first: by step, then version. Names alone are looked at. kNotFound if the directory is
// absent.
absl::StatusOr<std::vector<RunCheckpoint>> ListCheckpoints(Storage& storage, absl::string_view run_directory);

struct ResumeChoice {
  std::string path;  // empty: nothing to resume from
  std::shared_ptr<const Manifest> manifest;
  std::vector<std::string> skipped;  // "step-00000200: <why it is damaged>"
};
// The newest checkpoint whose structure is intact (CheckLevel::kQuick), passing over damaged ones and naming them.
// kDataLoss if there are checkpoints and none is intact: starting fresh would hide the loss.
absl::StatusOr<ResumeChoice> FindResumeCheckpoint(Storage& storage, absl::string_view run_directory);

// The first free name for a step: step-%08d, then -v1, -v2.
absl::StatusOr<std::string> FreshCheckpointPath(Storage& storage, absl::string_view run_directory, int64_t step);

// Points `name` at the checkpoint: a relative symlink made aside, renamed over the old one, parent synced.
absl::Status PointLink(Storage& storage, absl::string_view run_directory, absl::string_view name,
                       absl::string_view checkpoint_path);

// Removes temporaries of dead saves. The caller holds the lock.
absl::Status RemovePartials(Storage& storage, absl::string_view run_directory);

// Takes the run directory for this process. kUnavailable naming the other's host and pid if a live run has it.
absl::StatusOr<std::unique_ptr<FileLock>> LockRunDirectory(Storage& storage, absl::string_view run_directory);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_RUN_DIRECTORY_H_
