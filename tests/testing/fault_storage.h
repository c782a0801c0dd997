// A storage that fails where a test wants it to, and that loses power.
//
//   FaultStorage faults(*base);
//   faults.FailAt(17, FaultKind::kCrash);        // operation 17 and all later ones fail and change nothing
//   Save(faults);                                // fails
//   ASSERT_THAT(faults.Crash(), IsOk());         // what was not synced is gone from *base
//   Load(*base);                                 // what the next process finds
//
// To try every place: run once without faults, read operations(), then fail at each k below.
#ifndef SHARDWRIGHT_TESTS_TESTING_FAULT_STORAGE_H_
#define SHARDWRIGHT_TESTS_TESTING_FAULT_STORAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/tests/testing/disk_model.h"

namespace shardwright::testing {

enum class FaultKind {
  kCrash,      // It and all later ones fail with kUnavailable and change nothing.
  kTornWrite,  // As kCrash, but if it is a write, the first half of its bytes arrives.
  kIoError,    // EIO: it fails with kUnavailable and changes nothing (a file is closed all the same); later ones work.
  kNoSpace,    // ENOSPC: if it may need space (a sync or close may), it fails with kResourceExhausted; later writes and
               // new names fail as well.
  kShortWrite,  // It, or the first write after it, writes half of its bytes and then fails with kResourceExhausted.
};

// The kinds of operations that are counted.
enum class StorageCall {
  kOpenRead,
  kReadAt,
  kCreateFile,
  kOpenWrite,
  kWriteAt,
  kAllocate,
  kSync,
  kClose,
  kCreateDirectory,
  kInfo,
  kList,
  kRemoveFile,
  kRemoveDirectory,
  kRename,
  kLink,
  kSymlink,
  kReadLink,
  kSyncDirectory,
  kLock,
  kFreeBytes,
};

// Thread-safe: several ranks use it at once, one operation at a time. Borrows `base`; while in use, changes are made
// through this alone. Power loss is modelled by DiskModel.
class FaultStorage : public Storage {
 public:
  explicit FaultStorage(Storage& base) : base_(base), disk_(base) {}
  ~FaultStorage() override;

  // Operations count from 0. Several faults may be set.
  void FailAt(uint64_t operation, FaultKind kind);
  // The next operation of that kind, after `skip` others of it.
  void FailNext(StorageCall call, FaultKind kind, uint64_t skip = 0);
  // ENOSPC once files have grown by so many bytes; the write that hits the limit is a short one. Removing files gives
  // their bytes back.
  void LimitSpace(uint64_t bytes);
  void ClearFaults();

  uint64_t operations() const;
  // Every operation so far, "WriteAt a/b [4096, 8192)".
  std::vector<std::string> log() const;

  // Power loss now: `base` becomes what is durable, locks are freed, open files are dead, and every operation fails
  // until Restart().
  absl::Status Crash() { return CrashWith(std::nullopt); }
  // Some of what was not synced survives, chosen by `seed`.
  absl::Status CrashKeepingSome(uint64_t seed) { return CrashWith(seed); }
  // The process died, the machine did not: all that was written is there, locks are freed.
  void KillProcess();
  // Works again, without faults, for files opened from now on.
  void Restart();

  absl::StatusOr<std::unique_ptr<ReadFile>> OpenRead(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<WriteFile>> CreateFile(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenWrite(absl::string_view path) override;
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
  StorageCapabilities capabilities() const override { return base_.capabilities(); }

 private:
  class FaultReadFile;
  class FaultWriteFile;
  class FaultLock;
  struct TargetedFault {
    StorageCall call;
    FaultKind kind;
    uint64_t skip;
  };

  // Counts the operation and meets its fault: the error it fails with. `half` is set where half a write is to arrive
  // before that error.
  absl::Status Begin(StorageCall call, absl::string_view path, absl::string_view detail = "", bool* half = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<FaultKind> FaultOf(StorageCall call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Down(StorageCall call, absl::string_view path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CrashWith(std::optional<uint64_t> seed);
  void StopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::unique_ptr<WriteFile>> WrapLocked(absl::StatusOr<std::unique_ptr<WriteFile>> file,
                                                        absl::string_view path, DiskNodePtr node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // How many of the `bytes` that a file is to grow by fit; takes them.
  uint64_t TakeSpace(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReturnSpace(const DiskNodePtr& removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Storage& base_;
  mutable absl::Mutex mu_;
  DiskModel disk_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, FaultKind> faults_ ABSL_GUARDED_BY(mu_);
  std::vector<TargetedFault> targeted_ ABSL_GUARDED_BY(mu_);
  std::optional<uint64_t> space_left_ ABSL_GUARDED_BY(mu_);
  bool full_ ABSL_GUARDED_BY(mu_) = false;
  bool short_write_ ABSL_GUARDED_BY(mu_) = false;  // waits for a write
  bool down_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t starts_ ABSL_GUARDED_BY(mu_) = 0;  // Files of an earlier start are dead.
  std::map<FaultLock*, std::unique_ptr<FileLock>> locks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_TESTING_FAULT_STORAGE_H_
