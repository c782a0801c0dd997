#include "shardwright/core/storage/posix_file.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/storage/storage_status.h"

namespace shardwright {
namespace {

constexpr uint64_t kMaxOffset = std::numeric_limits<off_t>::max();
// Linux moves at most 2 GiB less a page in one call; smaller pieces keep a signal's retry cheap.
constexpr size_t kMaxPieceBytes = size_t{1} << 30;

absl::Status WriteFailed(absl::string_view path, int error_number, uint64_t offset, size_t bytes, size_t written) {
  return ErrnoStatus("write", path, error_number,
                     absl::StrCat(written, " of ", bytes, " bytes written at offset ", offset));
}

// All of `bytes` at `offset`, in as many calls as it takes.
absl::Status WriteFully(const PosixCalls& calls, absl::string_view path, int fd, uint64_t offset,
                        absl::Span<const char> bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const size_t piece = std::min(bytes.size() - done, kMaxPieceBytes);
    const ssize_t count = RetryInterrupted(
        [&] { return calls.pwrite(fd, bytes.data() + done, piece, static_cast<off_t>(offset + done)); });
    if (count < 0) return WriteFailed(path, errno, offset, bytes.size(), done);
    // A device that takes nothing and gives no reason would be asked for ever.
    if (count == 0) return WriteFailed(path, EIO, offset, bytes.size(), done);
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

class PosixFileLock : public FileLock {
 public:
  explicit PosixFileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  // Unlocks explicitly: a child that was forked meanwhile may still have the descriptor. The text goes with the lock.
  ~PosixFileLock() override {
    [[maybe_unused]] const int emptied = RetryInterrupted([&] { return ::ftruncate(fd_.get(), 0); });
    ::flock(fd_.get(), LOCK_UN);
  }

 private:
  UniqueFd fd_;
};

std::string ReadHolder(const PosixCalls& calls, int fd) {
  std::string text(kMaxHolderBytes, '\0');
  const ssize_t count = RetryInterrupted([&] { return calls.pread(fd, text.data(), text.size(), 0); });
  text.resize(std::max<ssize_t>(count, 0));
  return text;
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this == &other) return *this;
  UniqueFd old(std::exchange(fd_, other.Release()));
  return *this;
}

UniqueFd::~UniqueFd() {
  if (valid()) ::close(fd_);
}

int UniqueFd::Release() {
  return std::exchange(fd_, -1);
}

absl::Status PosixReadFile::ReadAt(uint64_t offset_bytes, absl::Span<char> out) const {
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  size_t done = 0;
  while (done < out.size() && offset_bytes <= kMaxOffset - done) {
    const size_t piece = std::min(out.size() - done, kMaxPieceBytes);
    const ssize_t count = RetryInterrupted(
        [&] { return calls_.pread(fd_.get(), out.data() + done, piece, static_cast<off_t>(offset_bytes + done)); });
    if (count < 0) {
      return ErrnoStatus("read", path_, errno,
                         absl::StrCat(done, " of ", out.size(), " bytes read at offset ", offset_bytes));
    }
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  counters_.bytes_read.fetch_add(done, std::memory_order_relaxed);
  if (done == out.size()) return absl::OkStatus();
  return EndOfFileStatus(path_, offset_bytes, out.size(), done);
}

PosixWriteFile::~PosixWriteFile() {
  if (fd_.valid()) calls_.close(fd_.Release());
}

absl::Status PosixWriteFile::WriteAt(uint64_t offset_bytes, absl::Span<const char> bytes) {
  if (!fd_.valid()) return ErrnoStatus("write", path_, EBADF, "the file is closed");
  if (offset_bytes > kMaxOffset || bytes.size() > kMaxOffset - offset_bytes) {
    return WriteFailed(path_, EINVAL, offset_bytes, bytes.size(), 0);
  }
  counters_.writes.fetch_add(1, std::memory_order_relaxed);
  const absl::Status written = WriteFully(calls_, path_, fd_.get(), offset_bytes, bytes);
  if (written.ok()) counters_.bytes_written.fetch_add(bytes.size(), std::memory_order_relaxed);
  return written;
}

absl::Status PosixWriteFile::Allocate(uint64_t size_bytes) {
  if (!fd_.valid()) return ErrnoStatus("allocate", path_, EBADF, "the file is closed");
  if (size_bytes == 0) return absl::OkStatus();
  const std::string detail = absl::StrCat(size_bytes, " bytes, ", FormatBytes(size_bytes));
  if (size_bytes > kMaxOffset) return ErrnoStatus("allocate", path_, EFBIG, detail);
  const int result =
      RetryInterrupted([&] { return calls_.fallocate(fd_.get(), 0, 0, static_cast<off_t>(size_bytes)); });
  if (result == 0) return absl::OkStatus();
  if (errno == EOPNOTSUPP || errno == ENOSYS) return ExtendWithoutBlocks(size_bytes);
  return ErrnoStatus("allocate", path_, errno, detail);
}

// For file systems that cannot reserve (NFS before 4.2, some FUSE): at least the size is right.
absl::Status PosixWriteFile::ExtendWithoutBlocks(uint64_t size_bytes) {
  struct stat info;
  if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus("stat", path_, errno);
  if (static_cast<uint64_t>(info.st_size) >= size_bytes) return absl::OkStatus();
  if (RetryInterrupted([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(size_bytes)); }) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus("extend", path_, errno, absl::StrCat(size_bytes, " bytes"));
}

absl::Status PosixWriteFile::Sync() {
  if (!fd_.valid()) return ErrnoStatus("sync", path_, EBADF, "the file is closed");
  counters_.syncs.fetch_add(1, std::memory_order_relaxed);
  const int result = RetryInterrupted([&] { return calls_.fsync(fd_.get()); });
  const int error_number = errno;
  absl::MutexLock lock(&mu_);
  if (result != 0 && sync_error_.ok()) sync_error_ = ErrnoStatus("sync", path_, error_number);
  return sync_error_;
}

absl::Status PosixWriteFile::Close() {
  if (!fd_.valid()) return ErrnoStatus("close", path_, EBADF, "the file is closed");
  // On Linux the descriptor is gone whatever close answers: EINTR is no failure, and closing again would hit a
  // stranger.
  if (calls_.close(fd_.Release()) != 0 && errno != EINTR) return ErrnoStatus("close", path_, errno);
  absl::MutexLock lock(&mu_);
  return sync_error_;
}

absl::StatusOr<std::unique_ptr<FileLock>> LockPosixFile(absl::string_view path, absl::string_view holder,
                                                        const PosixCalls& calls) {
  const std::string name(path);
  UniqueFd fd(RetryInterrupted([&] { return ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); }));
  if (!fd.valid()) return ErrnoStatus("lock", path, errno);
  if (RetryInterrupted([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno == EWOULDBLOCK) return LockHeldStatus(path, ReadHolder(calls, fd.get()));
    return ErrnoStatus("lock", path, errno);
  }
  if (RetryInterrupted([&] { return ::ftruncate(fd.get(), 0); }) != 0) return ErrnoStatus("lock", path, errno);
  const absl::Status written = WriteFully(calls, path, fd.get(), 0, {holder.data(), holder.size()});
  if (!written.ok()) return written;
  return std::make_unique<PosixFileLock>(std::move(fd));
}

}  // namespace shardwright
