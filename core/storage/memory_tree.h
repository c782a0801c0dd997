// The files and folders of the memory storage, and the walk along a path to them.
#ifndef SHARDWRIGHT_CORE_STORAGE_MEMORY_TREE_H_
#define SHARDWRIGHT_CORE_STORAGE_MEMORY_TREE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

// The bytes that all files may have together. Thread-safe.
class MemorySpace {
 public:
  explicit MemorySpace(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // False if there is not so much left.
  bool Take(uint64_t bytes);
  void Return(uint64_t bytes) { used_bytes_.fetch_sub(bytes); }
  uint64_t free_bytes() const { return capacity_bytes_ - used_bytes_.load(); }

 private:
  const uint64_t capacity_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
};

// The content of one file. Thread-safe for disjoint ranges, like a WriteFile.
class MemoryContent {
 public:
  explicit MemoryContent(MemorySpace& space) : space_(space) {}
  ~MemoryContent() { space_.Return(bytes_.size()); }

  uint64_t size_bytes() const;
  int64_t modified_unix_nanos() const { return modified_unix_nanos_.load(std::memory_order_relaxed); }
  // The number of bytes that there were to read.
  uint64_t Read(uint64_t offset, absl::Span<char> out) const;
  // Zero or an errno; all or nothing.
  int Write(uint64_t offset, absl::Span<const char> bytes);
  // Zero or an errno.
  int Extend(uint64_t size_bytes);
  void Clear();

 private:
  int ExtendLocked(uint64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Touch();

  MemorySpace& space_;
  std::atomic<int64_t> modified_unix_nanos_{0};
  mutable absl::Mutex mu_;  // Shared by whoever leaves the size alone.
  std::string bytes_ ABSL_GUARDED_BY(mu_);
};

// One file, folder or symlink. What is not const belongs to the lock of the tree.
struct MemoryNode {
  MemoryNode(FileType type, MemorySpace& space) : type(type), content(space) {}

  const FileType type;
  MemoryContent content;                                                    // of a regular file
  std::string target;                                                       // of a symlink
  std::map<std::string, std::shared_ptr<MemoryNode>, std::less<>> entries;  // of a folder
  std::weak_ptr<MemoryNode> parent;                                         // of a folder
  uint64_t links = 0;
  bool locked = false;
};

// Where a path leads. `node` is null if the last name is free in `folder`; `folder` is null if the path ends in no name
// of its own ("/", "a/..").
struct MemoryPlace {
  int error_number = 0;  // the rest holds only if this is zero
  std::shared_ptr<MemoryNode> folder;
  std::string name;
  std::shared_ptr<MemoryNode> node;
  bool wants_directory = false;  // it ends in a slash
};

// Folders from `root` on, symlinks followed as a file system follows them; the last one only if `follow_last`.
MemoryPlace WalkMemoryTree(const std::shared_ptr<MemoryNode>& root, absl::string_view path, bool follow_last);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STORAGE_MEMORY_TREE_H_
