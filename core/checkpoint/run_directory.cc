#include "shardwright/core/checkpoint/run_directory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/check_level.h"
#include "shardwright/core/checkpoint/verify.h"
#include "shardwright/core/format/native/native.h"

namespace shardwright {
namespace {

constexpr absl::string_view kLockName = ".lock";

// Damage that another checkpoint can stand in for. What merely could not be read is an error: falling back from it
// would silently lose progress.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
}

// OK if the structure is intact; the manifest then is in `manifest`.
absl::Status Examine(Storage& storage, absl::string_view path, std::shared_ptr<const Manifest>* manifest) {
  SW_ASSIGN_OR_RETURN(*manifest, OpenManifest(storage, path));
  const VerifyResult result = VerifyOpened(storage, path, **manifest, CheckLevel::kQuick);
  switch (result.verdict) {
    case VerifyVerdict::kOk:
    case VerifyVerdict::kUnsealed:
      return absl::OkStatus();
    case VerifyVerdict::kUnreadable:
      return absl::UnavailableError(absl::StrJoin(result.problems, "; "));
    default:
      return absl::DataLossError(absl::StrJoin(result.problems, "; "));
  }
}

absl::Status CheckLinkName(absl::string_view name) {
  const bool taken_form = ParseStepDirectoryName(name).has_value() || IsTemporaryName(name) || name == kLockName;
  if (name.empty() || name == "." || name == ".." || name.find('/') != absl::string_view::npos || taken_form) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is not a name for a link to a checkpoint"));
  }
  return absl::OkStatus();
}

// What stands at a link's name may be replaced if it is a link, never if it is anything else.
absl::Status CheckReplaceable(Storage& storage, absl::string_view path) {
  const absl::StatusOr<FileInfo> info = storage.Info(path);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  SW_RETURN_IF_ERROR(info.status());
  if (info->type == FileType::kSymlink) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path, " is not a symbolic link; it is left alone"));
}

absl::Status ReplaceLink(Storage& storage, absl::string_view target, absl::string_view aside, absl::string_view path) {
  SW_RETURN_IF_ERROR(storage.Symlink(target, aside));
  const absl::Status renamed = storage.Rename(aside, path);
  if (!renamed.ok()) storage.RemoveFile(aside).IgnoreError();
  return renamed;
}

std::string HolderText() {
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return absl::StrCat(host.data(), " ", ::getpid(), " ",
                      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()));
}

}  // namespace

absl::StatusOr<std::vector<RunCheckpoint>> ListCheckpoints(Storage& storage, absl::string_view run_directory) {
  SW_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, storage.List(run_directory),
                      _ << "listing checkpoints of " << run_directory);
  std::vector<RunCheckpoint> checkpoints;
  for (const DirectoryEntry& entry : entries) {
    const std::optional<StepDirectory> step = ParseStepDirectoryName(entry.name);
    if (!step.has_value() || entry.type != FileType::kDirectory) continue;
    checkpoints.push_back({JoinPath(run_directory, entry.name), step->step, step->version});
  }
  std::sort(checkpoints.begin(), checkpoints.end(), [](const RunCheckpoint& a, const RunCheckpoint& b) {
    return std::tie(a.step, a.version) > std::tie(b.step, b.version);
  });
  return checkpoints;
}

absl::StatusOr<ResumeChoice> FindResumeCheckpoint(Storage& storage, absl::string_view run_directory) {
  ResumeChoice choice;
  const absl::StatusOr<std::vector<RunCheckpoint>> checkpoints = ListCheckpoints(storage, run_directory);
  if (absl::IsNotFound(checkpoints.status())) return choice;
  SW_RETURN_IF_ERROR(checkpoints.status());
  for (const RunCheckpoint& checkpoint : *checkpoints) {
    const absl::Status status = Examine(storage, checkpoint.path, &choice.manifest);
    if (status.ok()) {
      choice.path = checkpoint.path;
      return choice;
    }
    if (!IsDamage(status)) {
      SW_RETURN_IF_ERROR(status) << "looking for a checkpoint to resume from in " << run_directory;
    }
    choice.skipped.push_back(absl::StrCat(BaseName(checkpoint.path), ": ", status.message()));
  }
  choice.manifest.reset();
  if (choice.skipped.empty()) return choice;
  return absl::DataLossError(
      absl::StrCat("looking for a checkpoint to resume from in ", run_directory, ": none of ", choice.skipped.size(),
                   " is intact; repair one, or start in another directory\n  ", absl::StrJoin(choice.skipped, "\n  ")));
}

absl::StatusOr<std::string> FreshCheckpointPath(Storage& storage, absl::string_view run_directory, int64_t step) {
  if (step < 0) {
    return absl::InvalidArgumentError(absl::StrCat("naming a checkpoint in ", run_directory, ": step ", step, " < 0"));
  }
  for (int32_t version = 0;; ++version) {
    const std::string path = JoinPath(run_directory, StepDirectoryName(step, version));
    const absl::StatusOr<FileInfo> info = storage.Info(path);
    if (absl::IsNotFound(info.status())) return path;
    SW_RETURN_IF_ERROR(info.status()) << "naming a checkpoint in " << run_directory;
  }
}

absl::Status PointLink(Storage& storage, absl::string_view run_directory, absl::string_view name,
                       absl::string_view checkpoint_path) {
  const std::string target = BaseName(checkpoint_path);
  const std::string path = JoinPath(run_directory, name);
  const auto point = [&]() -> absl::Status {
    SW_RETURN_IF_ERROR(CheckLinkName(name));
    SW_ASSIGN_OR_RETURN(const FileInfo info, storage.Info(JoinPath(run_directory, target)));
    if (info.type != FileType::kDirectory) {
      return absl::InvalidArgumentError(absl::StrCat(target, " is not a checkpoint of this run's directory"));
    }
    SW_RETURN_IF_ERROR(CheckReplaceable(storage, path));
    const std::string nonce = absl::StrFormat("%08x", std::random_device()());
    const std::string aside = JoinPath(run_directory, TemporaryDirectoryName(name, nonce));
    SW_RETURN_IF_ERROR(ReplaceLink(storage, target, aside, path));
    return storage.SyncDirectory(run_directory);
  };
  SW_RETURN_IF_ERROR(point()) << "pointing " << path << " at " << target;
  return absl::OkStatus();
}

absl::Status RemovePartials(Storage& storage, absl::string_view run_directory) {
  SW_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, storage.List(run_directory),
                      _ << "removing unfinished saves of " << run_directory);
  absl::Status first;
  for (const DirectoryEntry& entry : entries) {
    if (!IsTemporaryName(entry.name)) continue;
    first.Update(RemoveTree(storage, JoinPath(run_directory, entry.name)));
  }
  SW_RETURN_IF_ERROR(first) << "removing unfinished saves of " << run_directory;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> LockRunDirectory(Storage& storage, absl::string_view run_directory) {
  if (!Exists(storage, run_directory)) {
    SW_RETURN_IF_ERROR(storage.CreateDirectories(run_directory)) << "locking run directory " << run_directory;
    SW_RETURN_IF_ERROR(storage.SyncDirectory(ParentPath(run_directory))) << "locking run directory " << run_directory;
  }
  SW_ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, storage.Lock(JoinPath(run_directory, kLockName), HolderText()),
                      _ << "locking run directory " << run_directory);
  return lock;
}

}  // namespace shardwright
