#include "shardwright/core/storage/posix.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/checked_math.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/storage/posix_calls.h"
#include "shardwright/core/storage/posix_file.h"
#include "shardwright/core/storage/storage_status.h"

namespace shardwright {
namespace {

// A path as the system takes it. C strings end at a NUL: such a path would silently name another file.
absl::StatusOr<std::string> SystemPath(absl::string_view operation, absl::string_view path) {
  if (path.find('\0') == absl::string_view::npos) return std::string(path);
  return absl::InvalidArgumentError(
      absl::StrCat(operation, " ", path.substr(0, path.find('\0')), ": the path has a NUL byte after this"));
}

FileType TypeOfMode(mode_t mode) {
  if (S_ISREG(mode)) return FileType::kRegular;
  if (S_ISDIR(mode)) return FileType::kDirectory;
  if (S_ISLNK(mode)) return FileType::kSymlink;
  return FileType::kOther;
}

FileType TypeOfEntry(const dirent& entry, absl::string_view folder) {
  if (entry.d_type != DT_UNKNOWN) return TypeOfMode(DTTOIF(entry.d_type));
  struct stat info;
  // A name that vanished meanwhile has no type; whoever uses it finds out.
  return ::lstat(JoinPath(folder, entry.d_name).c_str(), &info) == 0 ? TypeOfMode(info.st_mode) : FileType::kOther;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

class PosixStorage : public Storage {
 public:
  explicit PosixStorage(PosixCalls calls) : calls_(std::move(calls)) {}

  absl::StatusOr<std::unique_ptr<ReadFile>> OpenRead(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<WriteFile>> CreateFile(absl::string_view path) override {
    return OpenToWrite("create", path, O_CREAT | O_EXCL);
  }
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenWrite(absl::string_view path) override {
    return OpenToWrite("open for writing", path, 0);
  }
  absl::Status CreateDirectory(absl::string_view path) override;
  absl::Status CreateDirectories(absl::string_view path) override { return CreateDirectoriesOneByOne(*this, path); }
  absl::StatusOr<FileInfo> Info(absl::string_view path) override;
  absl::StatusOr<std::vector<DirectoryEntry>> List(absl::string_view path) override;
  absl::Status RemoveFile(absl::string_view path) override;
  absl::Status RemoveDirectory(absl::string_view path) override;
  absl::Status Rename(absl::string_view from, absl::string_view to) override;
  absl::Status Link(absl::string_view existing, absl::string_view name) override;
  absl::Status Symlink(absl::string_view target, absl::string_view name) override;
  absl::StatusOr<std::string> ReadLink(absl::string_view path) override;
  absl::Status SyncDirectory(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(absl::string_view path, absl::string_view holder) override;
  absl::StatusOr<uint64_t> FreeBytes(absl::string_view path) override;
  StorageCapabilities capabilities() const override { return {}; }

 private:
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenToWrite(absl::string_view operation, absl::string_view path,
                                                         int flags);

  const PosixCalls calls_;
};

absl::StatusOr<std::unique_ptr<ReadFile>> PosixStorage::OpenRead(absl::string_view path) {
  constexpr absl::string_view kOperation = "open";
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath(kOperation, path));
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  UniqueFd fd(RetryInterrupted([&] { return ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!fd.valid()) return ErrnoStatus(kOperation, path, errno);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(kOperation, path, errno);
  if (S_ISDIR(info.st_mode)) return ErrnoStatus(kOperation, path, EISDIR);
  if (!S_ISREG(info.st_mode)) return absl::FailedPreconditionError(absl::StrCat("open ", path, ": not a regular file"));
  return std::make_unique<PosixReadFile>(path, std::move(fd), static_cast<uint64_t>(info.st_size), calls_, counters_);
}

absl::StatusOr<std::unique_ptr<WriteFile>> PosixStorage::OpenToWrite(absl::string_view operation,
                                                                     absl::string_view path, int flags) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath(operation, path));
  UniqueFd fd(RetryInterrupted([&] { return ::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, 0666); }));
  if (!fd.valid()) return ErrnoStatus(operation, path, errno);
  return std::make_unique<PosixWriteFile>(path, std::move(fd), calls_, counters_);
}

absl::Status PosixStorage::CreateDirectory(absl::string_view path) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath("create directory", path));
  if (::mkdir(name.c_str(), 0777) == 0) return absl::OkStatus();
  return ErrnoStatus("create directory", path, errno);
}

absl::StatusOr<FileInfo> PosixStorage::Info(absl::string_view path) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath("stat", path));
  struct stat info;
  if (::lstat(name.c_str(), &info) != 0) return ErrnoStatus("stat", path, errno);
  return FileInfo{.type = TypeOfMode(info.st_mode),
                  .size_bytes = static_cast<uint64_t>(info.st_size),
                  .allocated_bytes = static_cast<uint64_t>(info.st_blocks) * 512,
                  .links = info.st_nlink,
                  .inode = info.st_ino,
                  .modified_unix_nanos = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

absl::StatusOr<std::vector<DirectoryEntry>> PosixStorage::List(absl::string_view path) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath("list", path));
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(name.c_str()));
  if (directory == nullptr) return ErrnoStatus("list", path, errno);
  std::vector<DirectoryEntry> entries;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const absl::string_view found = entry->d_name;
    if (found != "." && found != "..") entries.push_back({std::string(found), TypeOfEntry(*entry, path)});
    errno = 0;
  }
  if (errno != 0) return ErrnoStatus("list", path, errno);
  std::sort(entries.begin(), entries.end(),
            [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
  return entries;
}

absl::Status PosixStorage::RemoveFile(absl::string_view path) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath("remove", path));
  if (::unlink(name.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus("remove", path, errno);
}

absl::Status PosixStorage::RemoveDirectory(absl::string_view path) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath("remove directory", path));
  if (::rmdir(name.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus("remove directory", path, errno == EEXIST ? ENOTEMPTY : errno);
}

absl::Status PosixStorage::Rename(absl::string_view from, absl::string_view to) {
  SW_ASSIGN_OR_RETURN(const std::string from_name, SystemPath("rename", from));
  SW_ASSIGN_OR_RETURN(const std::string to_name, SystemPath("rename to", to));
  if (::rename(from_name.c_str(), to_name.c_str()) == 0) return absl::OkStatus();
  // Both names of "not empty" are allowed by POSIX.
  return ErrnoStatus("rename", absl::StrCat(from, " to ", to), errno == EEXIST ? ENOTEMPTY : errno);
}

absl::Status PosixStorage::Link(absl::string_view existing, absl::string_view name) {
  SW_ASSIGN_OR_RETURN(const FileInfo info, Info(existing), _ << "link " << name);
  if (info.type != FileType::kRegular) {
    return absl::FailedPreconditionError(absl::StrCat("link ", existing, " as ", name, ": not a regular file"));
  }
  SW_ASSIGN_OR_RETURN(const std::string new_name, SystemPath("link", name));
  if (::link(std::string(existing).c_str(), new_name.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus("link", absl::StrCat(existing, " as ", name), errno);
}

absl::Status PosixStorage::Symlink(absl::string_view target, absl::string_view name) {
  SW_ASSIGN_OR_RETURN(const std::string system_target, SystemPath("symlink to", target));
  SW_ASSIGN_OR_RETURN(const std::string system_name, SystemPath("symlink", name));
  if (::symlink(system_target.c_str(), system_name.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus("symlink", absl::StrCat(name, " to ", target), errno);
}

absl::StatusOr<std::string> PosixStorage::ReadLink(absl::string_view path) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath("read link", path));
  std::string target(PATH_MAX, '\0');  // no longer one can be made
  const ssize_t length = ::readlink(name.c_str(), target.data(), target.size());
  if (length < 0 && errno == EINVAL) {
    return absl::FailedPreconditionError(absl::StrCat("read link ", path, ": not a symlink"));
  }
  if (length < 0) return ErrnoStatus("read link", path, errno);
  target.resize(static_cast<size_t>(length));
  return target;
}

absl::Status PosixStorage::SyncDirectory(absl::string_view path) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath("sync directory", path));
  const UniqueFd fd(RetryInterrupted([&] { return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd.valid()) return ErrnoStatus("sync directory", path, errno);
  counters_.syncs.fetch_add(1, std::memory_order_relaxed);
  if (RetryInterrupted([&] { return calls_.fsync(fd.get()); }) == 0) return absl::OkStatus();
  // Some network file systems have nothing to sync for a directory, and say so with EINVAL.
  return errno == EINVAL ? absl::OkStatus() : ErrnoStatus("sync directory", path, errno);
}

absl::StatusOr<std::unique_ptr<FileLock>> PosixStorage::Lock(absl::string_view path, absl::string_view holder) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath("lock", path));
  return LockPosixFile(name, holder, calls_);
}

absl::StatusOr<uint64_t> PosixStorage::FreeBytes(absl::string_view path) {
  SW_ASSIGN_OR_RETURN(const std::string name, SystemPath("free space of", path));
  struct statvfs info;
  if (RetryInterrupted([&] { return ::statvfs(name.c_str(), &info); }) != 0) {
    return ErrnoStatus("free space of", path, errno);
  }
  return CheckedMultiply<uint64_t>(info.f_bavail, info.f_frsize).value_or(UINT64_MAX);
}

}  // namespace

std::unique_ptr<Storage> MakePosixStorage() {
  return MakePosixStorageWith({});
}

std::unique_ptr<Storage> MakePosixStorageWith(PosixCalls calls) {
  return std::make_unique<PosixStorage>(std::move(calls));
}

}  // namespace shardwright
