#include "shardwright/core/storage/storage.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

// As many symlinks as Linux follows.
constexpr int kMaxLinks = 40;

absl::string_view WithoutTrailingSlashes(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

absl::Status IgnoreNotFound(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status WriteSyncAndClose(WriteFile& file, absl::Span<const char> bytes) {
  SW_RETURN_IF_ERROR(file.WriteAt(0, bytes));
  SW_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

absl::Status RemoveEntry(Storage& storage, absl::string_view folder, const DirectoryEntry& entry) {
  const std::string path = JoinPath(folder, entry.name);
  if (entry.type == FileType::kDirectory) return RemoveTree(storage, path);
  return IgnoreNotFound(storage.RemoveFile(path));
}

}  // namespace

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  if (folder.empty()) return std::string(name);
  return absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", name);
}

std::string ParentPath(absl::string_view path) {
  path = WithoutTrailingSlashes(path);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(WithoutTrailingSlashes(path.substr(0, slash + 1)));
}

std::string BaseName(absl::string_view path) {
  path = WithoutTrailingSlashes(path);
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos || path == "/" ? path : path.substr(slash + 1));
}

bool Exists(Storage& storage, absl::string_view path) {
  std::string at(path);
  for (int links = 0; links <= kMaxLinks; ++links) {
    const absl::StatusOr<FileInfo> info = storage.Info(at);
    if (!info.ok()) return false;
    if (info->type != FileType::kSymlink) return true;
    const absl::StatusOr<std::string> target = storage.ReadLink(at);
    if (!target.ok()) return false;
    at = absl::StartsWith(*target, "/") ? *target : JoinPath(ParentPath(at), *target);
  }
  return false;
}

absl::StatusOr<std::string> ReadWholeFile(Storage& storage, absl::string_view path, uint64_t max_bytes) {
  SW_ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, storage.OpenRead(path));
  if (file->size_bytes() > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("read ", path, ": it has ", file->size_bytes(), " bytes (",
                                                     FormatBytes(file->size_bytes()), "), at most ", max_bytes,
                                                     " are read at once"));
  }
  std::string bytes(file->size_bytes(), '\0');
  SW_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(bytes)));
  return bytes;
}

absl::Status WriteWholeFile(Storage& storage, absl::string_view path, absl::Span<const char> bytes) {
  SW_ASSIGN_OR_RETURN(std::unique_ptr<WriteFile> file, storage.CreateFile(path));
  const absl::Status written = WriteSyncAndClose(*file, bytes);
  file.reset();
  // The first error is the one to report; a file that cannot be removed is found by its name later.
  if (!written.ok()) storage.RemoveFile(path).IgnoreError();
  return written;
}

absl::Status RemoveTree(Storage& storage, absl::string_view path) {
  path = WithoutTrailingSlashes(path);  // "link/" would mean what the link points to
  const absl::StatusOr<FileInfo> info = storage.Info(path);
  if (!info.ok()) return IgnoreNotFound(info.status());
  if (info->type != FileType::kDirectory) return IgnoreNotFound(storage.RemoveFile(path));
  absl::StatusOr<std::vector<DirectoryEntry>> entries = storage.List(path);
  if (!entries.ok()) return IgnoreNotFound(entries.status());
  // Links go first, so that no link ever points to what is gone.
  for (const bool links : {true, false}) {
    for (const DirectoryEntry& entry : *entries) {
      if ((entry.type == FileType::kSymlink) != links) continue;
      SW_RETURN_IF_ERROR(RemoveEntry(storage, path, entry));
    }
  }
  return IgnoreNotFound(storage.RemoveDirectory(path));
}

absl::Status CreateDirectoriesOneByOne(Storage& storage, absl::string_view path) {
  absl::Status made = storage.CreateDirectory(path);
  const std::string parent = ParentPath(path);
  if (absl::IsNotFound(made) && parent != path && !path.empty()) {
    SW_RETURN_IF_ERROR(CreateDirectoriesOneByOne(storage, parent));
    made = storage.CreateDirectory(path);
  }
  if (made.ok()) return made;
  // Whatever the attempt says (a read-only file system may say so first), what is there already is there. The dot makes
  // a symlink to a directory one, too.
  return storage.Info(JoinPath(path, ".")).ok() ? absl::OkStatus() : made;
}

}  // namespace shardwright
