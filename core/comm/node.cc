#include "shardwright/core/comm/node.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/check.h"

namespace shardwright {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(20);

// Letters, digits, '.' and '-' stay; other bytes become "_2f": different keys have different files.
std::string Escape(absl::string_view key) {
  std::string name;
  for (char c : key) {
    if (absl::ascii_isalnum(c) || c == '.' || c == '-') {
      name += c;
    } else {
      absl::StrAppend(&name, "_", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return name;
}

// False if the file was removed, and perhaps made anew, before it was locked: such a lock excludes nobody.
bool IsStillAt(int fd, const std::string& path) {
  struct stat locked, named;
  return fstat(fd, &locked) == 0 && stat(path.c_str(), &named) == 0 && locked.st_ino == named.st_ino &&
         locked.st_dev == named.st_dev;
}

// Only for messages: the lock itself needs no content.
void WriteHolder(int fd) {
  const std::string pid = absl::StrCat(getpid());
  if (ftruncate(fd, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = pwrite(fd, pid.data(), pid.size(), 0);
}

}  // namespace

NodeGate::Turn::~Turn() {
  if (fd_ < 0) return;
  [[maybe_unused]] const int truncated = ftruncate(fd_, 0);
  flock(fd_, LOCK_UN);  // frees the turn even where a forked child still holds the file open
  close(fd_);
}

NodeGate::NodeGate(std::string key, int32_t capacity) : key_(std::move(key)), capacity_(capacity) {
  SW_CHECK(capacity_ > 0);
}

std::string NodeGate::PathOf(int32_t place) const {
  return absl::StrCat("/dev/shm/shardwright-", getuid(), "-", Escape(key_), ".", place, ".lock");
}

absl::StatusOr<int> NodeGate::TryLock(int32_t place) const {
  const std::string path = PathOf(place);
  while (true) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
      return absl::UnavailableError(
          absl::StrCat("entering the node's gate: cannot open ", path, ": ", strerror(errno)));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(fd);
      if (error == EWOULDBLOCK) return -1;
      return absl::UnavailableError(
          absl::StrCat("entering the node's gate: cannot lock ", path, ": ", strerror(error)));
    }
    if (IsStillAt(fd, path)) return fd;
    close(fd);
  }
}

absl::StatusOr<NodeGate::Turn> NodeGate::Enter(absl::Duration timeout) const {
  const absl::Time deadline = absl::Now() + timeout;
  absl::Duration pause = kFirstPause;
  while (true) {
    for (int32_t place = 0; place < capacity_; ++place) {
      absl::StatusOr<int> fd = TryLock(place);
      if (!fd.ok()) return fd.status();
      if (*fd < 0) continue;
      WriteHolder(*fd);
      return Turn(*fd);
    }
    if (absl::Now() >= deadline) break;
    absl::SleepFor(std::min(pause, deadline - absl::Now()));
    pause = std::min(pause * 2, kLongestPause);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("entering the node's gate \"", key_, "\": no turn within ", absl::FormatDuration(timeout), "; ",
                   capacity_, capacity_ == 1 ? " place" : " places", " held by process ", Holders()));
}

std::string NodeGate::Holders() const {
  std::vector<std::string> pids;
  for (int32_t place = 0; place < capacity_; ++place) {
    const int fd = open(PathOf(place).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char text[24] = {};
    const ssize_t length = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);
    if (fd >= 0) close(fd);
    int64_t pid;
    pids.push_back(length > 0 && absl::SimpleAtoi(text, &pid) ? absl::StrCat(pid) : "unknown");
  }
  return absl::StrJoin(pids, ", ");
}

void NodeGate::Remove() const {
  for (int32_t place = 0; place < capacity_; ++place) unlink(PathOf(place).c_str());
}

}  // namespace shardwright
