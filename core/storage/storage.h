// Storage: the file operations that checkpoints are made of, behind one interface, so that every one of them can be
// made to fail in tests and counted in plans.
//
// Paths are opaque bytes; "a/b" means b in folder a. Relative paths are the process's.
#ifndef SHARDWRIGHT_CORE_STORAGE_STORAGE_H_
#define SHARDWRIGHT_CORE_STORAGE_STORAGE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shardwright {

// An open file to read. Thread-safe: reads carry their own offset.
class ReadFile {
 public:
  virtual ~ReadFile() = default;
  // The size when it was opened.
  virtual uint64_t size_bytes() const = 0;
  // Fills all of `out`. kDataLoss if the file ends before (it names path, offset, expected and got).
  virtual absl::Status ReadAt(uint64_t offset_bytes, absl::Span<char> out) const = 0;
};

// An open file to write. Thread-safe for disjoint ranges; several ranks may hold the same file open.
// Nothing is durable before Sync. Destruction closes without syncing and drops errors: call Close.
class WriteFile {
 public:
  virtual ~WriteFile() = default;
  virtual absl::Status WriteAt(uint64_t offset_bytes, absl::Span<const char> bytes) = 0;
  // Reserves space and sets the size to at least `size_bytes`, so that a full disk shows before any byte is written.
  // Never shrinks. kResourceExhausted if there is no space. Several ranks on one file ask for the same size.
  virtual absl::Status Allocate(uint64_t size_bytes) = 0;
  // Sticks on its first error: bytes that could not be made durable once are not reported durable later.
  virtual absl::Status Sync() = 0;
  // kFailedPrecondition for every call after Close, another Close included.
  virtual absl::Status Close() = 0;
};

// Held until destroyed, or until the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class FileType { kRegular, kDirectory, kSymlink, kOther };

struct FileInfo {
  FileType type = FileType::kOther;
  uint64_t size_bytes = 0;
  uint64_t allocated_bytes = 0;  // blocks on the device
  uint64_t links = 1;
  uint64_t inode = 0;  // the same for all names of one file
  int64_t modified_unix_nanos = 0;
};

struct DirectoryEntry {
  std::string name;  // one component
  FileType type = FileType::kOther;
};

// What the backend can do; callers ask before they plan.
struct StorageCapabilities {
  bool write_at = true;  // several writers, one file
  bool hard_links = true;
  bool symlinks = true;
  bool atomic_rename = true;
  bool locks = true;
};

// Bytes and calls since creation; relaxed atomics.
struct StorageCounters {
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> bytes_written{0};
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> syncs{0};
};

// One tree of files. Thread-safe; outlives the files and locks that it hands out. Codes: kNotFound, kAlreadyExists,
// kPermissionDenied, kResourceExhausted (no space, quota, file-size limit), kUnavailable (device error),
// kFailedPrecondition (directory not empty, wrong type), kInvalidArgument (a name that is too long). Every message
// names operation, path and the system's reason.
class Storage {
 public:
  virtual ~Storage() = default;

  virtual absl::StatusOr<std::unique_ptr<ReadFile>> OpenRead(absl::string_view path) = 0;
  // Makes a new file; kAlreadyExists if the name is taken, by whatever.
  virtual absl::StatusOr<std::unique_ptr<WriteFile>> CreateFile(absl::string_view path) = 0;
  // Opens an existing file to write into; does not truncate.
  virtual absl::StatusOr<std::unique_ptr<WriteFile>> OpenWrite(absl::string_view path) = 0;

  // Makes one directory; kAlreadyExists if the name is taken.
  virtual absl::Status CreateDirectory(absl::string_view path) = 0;
  // Makes a directory and its parents; OK if it is there already.
  virtual absl::Status CreateDirectories(absl::string_view path) = 0;
  // Does not follow a final symlink.
  virtual absl::StatusOr<FileInfo> Info(absl::string_view path) = 0;
  // Sorted by name, without "." and "..".
  virtual absl::StatusOr<std::vector<DirectoryEntry>> List(absl::string_view path) = 0;

  // Removes a file or symlink (never what it points to).
  virtual absl::Status RemoveFile(absl::string_view path) = 0;
  // Removes an empty directory.
  virtual absl::Status RemoveDirectory(absl::string_view path) = 0;

  // Atomic within one file system; replaces a file, a symlink, or (with a directory) an empty directory.
  // kFailedPrecondition onto a non-empty directory. Between two names of one file it does nothing, as POSIX has it.
  virtual absl::Status Rename(absl::string_view from, absl::string_view to) = 0;
  // A second name for a regular file. kFailedPrecondition for anything else, a symlink included.
  virtual absl::Status Link(absl::string_view existing, absl::string_view name) = 0;
  // `target` is stored as given.
  virtual absl::Status Symlink(absl::string_view target, absl::string_view name) = 0;
  virtual absl::StatusOr<std::string> ReadLink(absl::string_view path) = 0;

  // Makes the directory's names durable.
  virtual absl::Status SyncDirectory(absl::string_view path) = 0;
  // Creates the file if absent and locks it against other processes (and other holders in this one).
  // kUnavailable if it is held; the message carries the file's content, in which a holder writes who it is.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(absl::string_view path, absl::string_view holder) = 0;

  // Bytes that can still be written under `path`.
  virtual absl::StatusOr<uint64_t> FreeBytes(absl::string_view path) = 0;

  virtual StorageCapabilities capabilities() const = 0;
  const StorageCounters& counters() const { return counters_; }

 protected:
  StorageCounters counters_;
};

// Helpers over any Storage.
std::string JoinPath(absl::string_view folder, absl::string_view name);
std::string ParentPath(absl::string_view path);  // "." where there is no folder
std::string BaseName(absl::string_view path);
// True if the path exists, symlinks followed. False where it cannot be looked at.
bool Exists(Storage& storage, absl::string_view path);
// kResourceExhausted if the file has more than `max_bytes`: a reader that holds a whole file says how much it can hold.
absl::StatusOr<std::string> ReadWholeFile(Storage& storage, absl::string_view path, uint64_t max_bytes);
// Creates, writes, syncs, closes. Removes the file again if any of that fails.
absl::Status WriteWholeFile(Storage& storage, absl::string_view path, absl::Span<const char> bytes);
// Removes a tree, links before what they point to; does not follow symlinks. Absent is OK.
absl::Status RemoveTree(Storage& storage, absl::string_view path);

// Storage::CreateDirectories by CreateDirectory and Info, for backends that have nothing better.
absl::Status CreateDirectoriesOneByOne(Storage& storage, absl::string_view path);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STORAGE_STORAGE_H_
