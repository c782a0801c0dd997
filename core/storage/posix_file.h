// Open files and locks of the POSIX storage.
#ifndef SHARDWRIGHT_CORE_STORAGE_POSIX_FILE_H_
#define SHARDWRIGHT_CORE_STORAGE_POSIX_FILE_H_

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "shardwright/core/storage/posix_calls.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

// Calls again while a signal interrupts; returns what the call returned, errno left as it set it.
template <typename Call>
auto RetryInterrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

// Move-only file descriptor; closes when destroyed.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd();

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int Release();

 private:
  int fd_ = -1;
};

// Borrows the calls and counters of its storage.
class PosixReadFile : public ReadFile {
 public:
  PosixReadFile(absl::string_view path, UniqueFd fd, uint64_t size_bytes, const PosixCalls& calls,
                StorageCounters& counters)
      : path_(path), fd_(std::move(fd)), size_bytes_(size_bytes), calls_(calls), counters_(counters) {}

  uint64_t size_bytes() const override { return size_bytes_; }
  absl::Status ReadAt(uint64_t offset_bytes, absl::Span<char> out) const override;

 private:
  const std::string path_;
  const UniqueFd fd_;
  const uint64_t size_bytes_;
  const PosixCalls& calls_;
  StorageCounters& counters_;
};

// Borrows the calls and counters of its storage.
class PosixWriteFile : public WriteFile {
 public:
  PosixWriteFile(absl::string_view path, UniqueFd fd, const PosixCalls& calls, StorageCounters& counters)
      : path_(path), fd_(std::move(fd)), calls_(calls), counters_(counters) {}
  ~PosixWriteFile() override;

  absl::Status WriteAt(uint64_t offset_bytes, absl::Span<const char> bytes) override;
  absl::Status Allocate(uint64_t size_bytes) override;
  absl::Status Sync() override;
  absl::Status Close() override;

 private:
  absl::Status ExtendWithoutBlocks(uint64_t size_bytes);

  const std::string path_;
  UniqueFd fd_;
  const PosixCalls& calls_;
  StorageCounters& counters_;
  absl::Mutex mu_;
  absl::Status sync_error_ ABSL_GUARDED_BY(mu_);  // The kernel reports a lost write once, then forgets it.
};

// flock on `path`, made if absent, with `holder` as its content.
absl::StatusOr<std::unique_ptr<FileLock>> LockPosixFile(absl::string_view path, absl::string_view holder,
                                                        const PosixCalls& calls);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STORAGE_POSIX_FILE_H_
