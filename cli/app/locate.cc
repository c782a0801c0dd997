#include "shardwright/cli/app/locate.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/run_directory.h"
#include "shardwright/core/format/native/native.h"

namespace shardwright::app {
namespace {

std::string WithoutTrailingSlash(absl::string_view path) {
  while (path.size() > 1 && absl::ConsumeSuffix(&path, "/")) {
  }
  return std::string(path);
}

bool HasManifest(Storage& storage, absl::string_view path) {
  return Exists(storage, JoinPath(path, kManifestFileName));
}

// The directory behind a symlink ("last"), since listings do not follow a final one.
absl::StatusOr<bool> IsDirectory(Storage& storage, const std::string& path) {
  SW_ASSIGN_OR_RETURN(FileInfo info, storage.Info(path));
  if (info.type == FileType::kSymlink) return Exists(storage, JoinPath(path, "."));
  return info.type == FileType::kDirectory;
}

}  // namespace

absl::StatusOr<LocatedCheckpoint> LocateCheckpoint(Storage& storage, absl::string_view given) {
  const std::string path = WithoutTrailingSlash(given);
  SW_ASSIGN_OR_RETURN(bool is_directory, IsDirectory(storage, path));
  if (!is_directory) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": want a checkpoint's or a run's directory, got a file"));
  }
  std::string checkpoint = path;
  if (!HasManifest(storage, path)) {
    SW_ASSIGN_OR_RETURN(std::vector<RunCheckpoint> all, ListCheckpoints(storage, path));
    if (!all.empty()) checkpoint = all.front().path;
  }
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const Manifest> manifest, OpenManifest(storage, checkpoint));
  return LocatedCheckpoint{checkpoint, std::move(manifest)};
}

absl::StatusOr<std::vector<std::string>> ExpandRunDirectory(Storage& storage, absl::string_view given) {
  const std::string path = WithoutTrailingSlash(given);
  SW_ASSIGN_OR_RETURN(bool is_directory, IsDirectory(storage, path));
  if (!is_directory || HasManifest(storage, path)) return std::vector<std::string>{path};
  SW_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, storage.List(path));
  std::vector<std::string> found;
  for (const DirectoryEntry& entry : entries) {
    if (entry.type != FileType::kDirectory) continue;
    if (ParseStepDirectoryName(entry.name) || IsTemporaryName(entry.name)) found.push_back(JoinPath(path, entry.name));
  }
  return found.empty() ? std::vector<std::string>{path} : found;
}

}  // namespace shardwright::app
