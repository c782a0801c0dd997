#include "shardwright/core/storage/memory_tree.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace shardwright {
namespace {

// The limits of Linux, so that what works in memory works on a disk.
constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxPathBytes = 4095;
constexpr int kMaxLinks = 40;
constexpr uint64_t kMaxFileBytes = std::numeric_limits<int64_t>::max();

std::vector<std::string> Components(absl::string_view path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

bool ValidPath(absl::string_view path, int* error_number) {
  *error_number = path.empty()                                 ? ENOENT
                  : path.find('\0') != absl::string_view::npos ? EINVAL
                  : path.size() > kMaxPathBytes                ? ENAMETOOLONG
                                                               : 0;
  return *error_number == 0;
}

// One walk: what is still to go, and where it stands.
class Walk {
 public:
  Walk(std::shared_ptr<MemoryNode> root, absl::string_view path, bool follow_last)
      : root_(std::move(root)), follow_last_(follow_last) {
    place_.node = root_;
    Prepend(path);
  }

  MemoryPlace Run() {
    while (!rest_.empty() && place_.error_number == 0) {
      const std::string name = std::move(rest_.front());
      rest_.pop_front();
      place_.error_number = Step(name);
    }
    return std::move(place_);
  }

 private:
  void Prepend(absl::string_view path) {
    std::vector<std::string> names = Components(path);
    rest_.insert(rest_.begin(), std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
  }

  void StandAt(std::shared_ptr<MemoryNode> folder) {
    place_.folder = nullptr;
    place_.name.clear();
    place_.node = std::move(folder);
  }

  int Step(const std::string& name) {
    const std::shared_ptr<MemoryNode> here = place_.node;
    if (here == nullptr) return ENOENT;
    if (here->type != FileType::kDirectory) return ENOTDIR;
    if (name == ".") return 0;
    if (name == "..") {
      const std::shared_ptr<MemoryNode> parent = here->parent.lock();
      StandAt(parent == nullptr ? root_ : parent);
      return 0;
    }
    if (name.size() > kMaxNameBytes) return ENAMETOOLONG;
    const auto found = here->entries.find(name);
    std::shared_ptr<MemoryNode> next = found == here->entries.end() ? nullptr : found->second;
    const bool last = rest_.empty();
    if (next != nullptr && next->type == FileType::kSymlink && (!last || follow_last_)) return Follow(next->target);
    place_.folder = here;
    place_.name = name;
    place_.node = std::move(next);
    return 0;
  }

  int Follow(absl::string_view target) {
    if (++links_ > kMaxLinks) return ELOOP;
    if (absl::StartsWith(target, "/")) StandAt(root_);
    Prepend(target);
    return 0;
  }

  const std::shared_ptr<MemoryNode> root_;
  const bool follow_last_;
  std::deque<std::string> rest_;
  MemoryPlace place_;
  int links_ = 0;
};

}  // namespace

bool MemorySpace::Take(uint64_t bytes) {
  uint64_t used = used_bytes_.load();
  do {
    if (bytes > capacity_bytes_ - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  return true;
}

uint64_t MemoryContent::size_bytes() const {
  absl::ReaderMutexLock lock(&mu_);
  return bytes_.size();
}

uint64_t MemoryContent::Read(uint64_t offset, absl::Span<char> out) const {
  absl::ReaderMutexLock lock(&mu_);
  if (offset >= bytes_.size()) return 0;
  const size_t count = std::min<uint64_t>(out.size(), bytes_.size() - offset);
  std::copy_n(bytes_.data() + offset, count, out.data());
  return count;
}

int MemoryContent::Write(uint64_t offset, absl::Span<const char> bytes) {
  if (offset > kMaxFileBytes || bytes.size() > kMaxFileBytes - offset) return EINVAL;
  if (bytes.empty()) return 0;
  if (const int error_number = Extend(offset + bytes.size()); error_number != 0) return error_number;
  absl::ReaderMutexLock lock(&mu_);
  std::copy(bytes.begin(), bytes.end(), bytes_.data() + offset);
  Touch();
  return 0;
}

int MemoryContent::Extend(uint64_t size_bytes) {
  if (size_bytes > kMaxFileBytes) return EFBIG;
  {
    absl::ReaderMutexLock lock(&mu_);
    if (size_bytes <= bytes_.size()) return 0;
  }
  absl::MutexLock lock(&mu_);
  return ExtendLocked(size_bytes);
}

int MemoryContent::ExtendLocked(uint64_t size_bytes) {
  if (size_bytes <= bytes_.size()) return 0;
  if (!space_.Take(size_bytes - bytes_.size())) return ENOSPC;
  bytes_.resize(size_bytes);
  Touch();
  return 0;
}

void MemoryContent::Clear() {
  absl::MutexLock lock(&mu_);
  space_.Return(bytes_.size());
  bytes_.clear();
  Touch();
}

void MemoryContent::Touch() {
  modified_unix_nanos_.store(absl::GetCurrentTimeNanos(), std::memory_order_relaxed);
}

MemoryPlace WalkMemoryTree(const std::shared_ptr<MemoryNode>& root, absl::string_view path, bool follow_last) {
  MemoryPlace place;
  if (!ValidPath(path, &place.error_number)) return place;
  const bool wants_directory = absl::EndsWith(path, "/");
  place = Walk(root, path, follow_last || wants_directory).Run();
  place.wants_directory = wants_directory;
  const bool other = place.node != nullptr && place.node->type != FileType::kDirectory;
  if (place.error_number == 0 && wants_directory && other) place.error_number = ENOTDIR;
  return place;
}

}  // namespace shardwright
