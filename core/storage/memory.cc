#include "shardwright/core/storage/memory.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/storage/memory_tree.h"
#include "shardwright/core/storage/storage_status.h"

namespace shardwright {
namespace {

using NodePtr = std::shared_ptr<MemoryNode>;

class MemoryReadFile : public ReadFile {
 public:
  MemoryReadFile(absl::string_view path, NodePtr node, StorageCounters& counters)
      : path_(path), node_(std::move(node)), size_bytes_(node_->content.size_bytes()), counters_(counters) {}

  uint64_t size_bytes() const override { return size_bytes_; }

  absl::Status ReadAt(uint64_t offset_bytes, absl::Span<char> out) const override {
    const uint64_t count = node_->content.Read(offset_bytes, out);
    counters_.reads.fetch_add(1, std::memory_order_relaxed);
    counters_.bytes_read.fetch_add(count, std::memory_order_relaxed);
    if (count == out.size()) return absl::OkStatus();
    return EndOfFileStatus(path_, offset_bytes, out.size(), count);
  }

 private:
  const std::string path_;
  const NodePtr node_;
  const uint64_t size_bytes_;
  StorageCounters& counters_;
};

class MemoryWriteFile : public WriteFile {
 public:
  MemoryWriteFile(absl::string_view path, NodePtr node, StorageCounters& counters)
      : path_(path), node_(std::move(node)), counters_(counters) {}

  absl::Status WriteAt(uint64_t offset_bytes, absl::Span<const char> bytes) override {
    if (node_ == nullptr) return Closed("write");
    counters_.writes.fetch_add(1, std::memory_order_relaxed);
    if (const int error_number = node_->content.Write(offset_bytes, bytes); error_number != 0) {
      return ErrnoStatus("write", path_, error_number,
                         absl::StrCat("0 of ", bytes.size(), " bytes written at offset ", offset_bytes));
    }
    counters_.bytes_written.fetch_add(bytes.size(), std::memory_order_relaxed);
    return absl::OkStatus();
  }

  absl::Status Allocate(uint64_t size_bytes) override {
    if (node_ == nullptr) return Closed("allocate");
    const int error_number = node_->content.Extend(size_bytes);
    if (error_number == 0) return absl::OkStatus();
    return ErrnoStatus("allocate", path_, error_number, absl::StrCat(size_bytes, " bytes"));
  }

  absl::Status Sync() override {
    if (node_ == nullptr) return Closed("sync");
    counters_.syncs.fetch_add(1, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (node_ == nullptr) return Closed("close");
    node_ = nullptr;
    return absl::OkStatus();
  }

 private:
  absl::Status Closed(absl::string_view operation) const {
    return ErrnoStatus(operation, path_, EBADF, "the file is closed");
  }

  const std::string path_;
  NodePtr node_;  // null once closed
  StorageCounters& counters_;
};

class MemoryStorage : public Storage {
 public:
  explicit MemoryStorage(uint64_t capacity_bytes) : space_(capacity_bytes), root_(NewNode(FileType::kDirectory)) {}

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
  StorageCapabilities capabilities() const override { return {}; }

 private:
  class Unlocker;

  NodePtr NewNode(FileType type) { return std::make_shared<MemoryNode>(type, space_); }

  // What is there; an error if nothing is.
  absl::StatusOr<NodePtr> Find(absl::string_view operation, absl::string_view path, bool follow_last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<NodePtr> FindFile(absl::string_view operation, absl::string_view path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<NodePtr> FindDirectory(absl::string_view operation, absl::string_view path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Puts a node at a name that must be free.
  absl::Status Add(absl::string_view operation, absl::string_view path, NodePtr node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int Move(const MemoryPlace& from, const MemoryPlace& to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void Attach(const NodePtr& folder, absl::string_view name, NodePtr node);
  static void Detach(const MemoryPlace& place);

  MemorySpace space_;
  absl::Mutex mu_;  // Names. Contents have locks of their own.
  const NodePtr root_;
};

class MemoryStorage::Unlocker : public FileLock {
 public:
  Unlocker(MemoryStorage& storage, NodePtr node) : storage_(storage), node_(std::move(node)) {}
  ~Unlocker() override {
    absl::MutexLock lock(&storage_.mu_);
    node_->content.Clear();
    node_->locked = false;
  }

 private:
  MemoryStorage& storage_;
  const NodePtr node_;
};

absl::StatusOr<NodePtr> MemoryStorage::Find(absl::string_view operation, absl::string_view path, bool follow_last) {
  MemoryPlace place = WalkMemoryTree(root_, path, follow_last);
  if (place.error_number == 0 && place.node == nullptr) place.error_number = ENOENT;
  if (place.error_number != 0) return ErrnoStatus(operation, path, place.error_number);
  return std::move(place.node);
}

absl::StatusOr<NodePtr> MemoryStorage::FindFile(absl::string_view operation, absl::string_view path) {
  SW_ASSIGN_OR_RETURN(NodePtr node, Find(operation, path, /*follow_last=*/true));
  if (node->type == FileType::kDirectory) return ErrnoStatus(operation, path, EISDIR);
  return node;
}

absl::StatusOr<NodePtr> MemoryStorage::FindDirectory(absl::string_view operation, absl::string_view path) {
  SW_ASSIGN_OR_RETURN(NodePtr node, Find(operation, path, /*follow_last=*/true));
  if (node->type != FileType::kDirectory) return ErrnoStatus(operation, path, ENOTDIR);
  return node;
}

void MemoryStorage::Attach(const NodePtr& folder, absl::string_view name, NodePtr node) {
  ++node->links;
  if (node->type == FileType::kDirectory) node->parent = folder;
  folder->entries.insert_or_assign(std::string(name), std::move(node));
}

void MemoryStorage::Detach(const MemoryPlace& place) {
  --place.node->links;
  place.folder->entries.erase(place.name);
}

absl::Status MemoryStorage::Add(absl::string_view operation, absl::string_view path, NodePtr node) {
  const MemoryPlace place = WalkMemoryTree(root_, path, /*follow_last=*/false);
  if (place.error_number != 0) return ErrnoStatus(operation, path, place.error_number);
  if (place.node != nullptr) return ErrnoStatus(operation, path, EEXIST);
  if (place.wants_directory && node->type != FileType::kDirectory) return ErrnoStatus(operation, path, EISDIR);
  Attach(place.folder, place.name, std::move(node));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ReadFile>> MemoryStorage::OpenRead(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_ASSIGN_OR_RETURN(NodePtr node, FindFile("open", path));
  return std::make_unique<MemoryReadFile>(path, std::move(node), counters_);
}

absl::StatusOr<std::unique_ptr<WriteFile>> MemoryStorage::CreateFile(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  NodePtr node = NewNode(FileType::kRegular);
  SW_RETURN_IF_ERROR(Add("create", path, node));
  return std::make_unique<MemoryWriteFile>(path, std::move(node), counters_);
}

absl::StatusOr<std::unique_ptr<WriteFile>> MemoryStorage::OpenWrite(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_ASSIGN_OR_RETURN(NodePtr node, FindFile("open for writing", path));
  return std::make_unique<MemoryWriteFile>(path, std::move(node), counters_);
}

absl::Status MemoryStorage::CreateDirectory(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  return Add("create directory", path, NewNode(FileType::kDirectory));
}

absl::StatusOr<FileInfo> MemoryStorage::Info(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_ASSIGN_OR_RETURN(const NodePtr node, Find("stat", path, /*follow_last=*/false));
  const uint64_t size = node->type == FileType::kSymlink ? node->target.size() : node->content.size_bytes();
  return FileInfo{.type = node->type,
                  .size_bytes = size,
                  .allocated_bytes = node->content.size_bytes(),
                  .links = node->links,
                  .inode = reinterpret_cast<uintptr_t>(node.get()),
                  .modified_unix_nanos = node->content.modified_unix_nanos()};
}

absl::StatusOr<std::vector<DirectoryEntry>> MemoryStorage::List(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_ASSIGN_OR_RETURN(const NodePtr node, FindDirectory("list", path));
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, entry] : node->entries) entries.push_back({name, entry->type});
  return entries;
}

absl::Status MemoryStorage::RemoveFile(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  MemoryPlace place = WalkMemoryTree(root_, path, /*follow_last=*/false);
  if (place.error_number == 0 && place.node == nullptr) place.error_number = ENOENT;
  if (place.error_number == 0 && place.node->type == FileType::kDirectory) place.error_number = EISDIR;
  if (place.error_number != 0) return ErrnoStatus("remove", path, place.error_number);
  Detach(place);
  return absl::OkStatus();
}

absl::Status MemoryStorage::RemoveDirectory(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  MemoryPlace place = WalkMemoryTree(root_, path, /*follow_last=*/false);
  if (place.error_number == 0 && place.node == nullptr) place.error_number = ENOENT;
  if (place.error_number == 0 && place.node->type != FileType::kDirectory) place.error_number = ENOTDIR;
  if (place.error_number == 0 && !place.node->entries.empty()) place.error_number = ENOTEMPTY;
  if (place.error_number == 0 && place.folder == nullptr) place.error_number = EBUSY;
  if (place.error_number != 0) return ErrnoStatus("remove directory", path, place.error_number);
  Detach(place);
  return absl::OkStatus();
}

absl::Status MemoryStorage::Rename(absl::string_view from, absl::string_view to) {
  absl::MutexLock lock(&mu_);
  const int error_number =
      Move(WalkMemoryTree(root_, from, /*follow_last=*/false), WalkMemoryTree(root_, to, /*follow_last=*/false));
  if (error_number == 0) return absl::OkStatus();
  return ErrnoStatus("rename", absl::StrCat(from, " to ", to), error_number);
}

int MemoryStorage::Move(const MemoryPlace& from, const MemoryPlace& to) {
  if (from.error_number != 0) return from.error_number;
  if (to.error_number != 0) return to.error_number;
  if (from.node == nullptr) return ENOENT;
  if (from.folder == nullptr || to.folder == nullptr) return EBUSY;
  if (from.node == to.node) return 0;
  const bool moves_directory = from.node->type == FileType::kDirectory;
  if (moves_directory) {
    for (NodePtr above = to.folder; above != nullptr; above = above->parent.lock()) {
      if (above == from.node) return EINVAL;
    }
  }
  if (!moves_directory && to.wants_directory) return ENOTDIR;
  if (to.node != nullptr) {
    const bool onto_directory = to.node->type == FileType::kDirectory;
    if (moves_directory != onto_directory) return onto_directory ? EISDIR : ENOTDIR;
    if (!to.node->entries.empty()) return ENOTEMPTY;
    Detach(to);
  }
  Attach(to.folder, to.name, from.node);
  Detach(from);
  return 0;
}

absl::Status MemoryStorage::Link(absl::string_view existing, absl::string_view name) {
  absl::MutexLock lock(&mu_);
  SW_ASSIGN_OR_RETURN(NodePtr node, Find("stat", existing, /*follow_last=*/false), _ << "link " << name);
  if (node->type != FileType::kRegular) {
    return absl::FailedPreconditionError(absl::StrCat("link ", existing, " as ", name, ": not a regular file"));
  }
  return Add("link", name, std::move(node));
}

absl::Status MemoryStorage::Symlink(absl::string_view target, absl::string_view name) {
  absl::MutexLock lock(&mu_);
  if (target.empty()) return ErrnoStatus("symlink", absl::StrCat(name, " to nothing"), ENOENT);
  NodePtr node = NewNode(FileType::kSymlink);
  node->target = std::string(target);
  return Add("symlink", name, std::move(node));
}

absl::StatusOr<std::string> MemoryStorage::ReadLink(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_ASSIGN_OR_RETURN(const NodePtr node, Find("read link", path, /*follow_last=*/false));
  if (node->type == FileType::kSymlink) return node->target;
  return absl::FailedPreconditionError(absl::StrCat("read link ", path, ": not a symlink"));
}

absl::Status MemoryStorage::SyncDirectory(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  counters_.syncs.fetch_add(1, std::memory_order_relaxed);
  return internal::ToStatus(FindDirectory("sync directory", path));
}

absl::StatusOr<std::unique_ptr<FileLock>> MemoryStorage::Lock(absl::string_view path, absl::string_view holder) {
  absl::MutexLock lock(&mu_);
  MemoryPlace place = WalkMemoryTree(root_, path, /*follow_last=*/true);
  if (place.error_number == 0 && place.node == nullptr) {
    if (place.wants_directory) return ErrnoStatus("lock", path, EISDIR);
    place.node = NewNode(FileType::kRegular);
    Attach(place.folder, place.name, place.node);
  }
  if (place.error_number == 0 && place.node->type == FileType::kDirectory) place.error_number = EISDIR;
  if (place.error_number != 0) return ErrnoStatus("lock", path, place.error_number);
  MemoryContent& content = place.node->content;
  if (place.node->locked) {
    std::string text(kMaxHolderBytes, '\0');
    text.resize(content.Read(0, absl::MakeSpan(text)));
    return LockHeldStatus(path, text);
  }
  content.Clear();
  const int error_number = content.Write(0, {holder.data(), holder.size()});
  if (error_number != 0) return ErrnoStatus("lock", path, error_number);
  place.node->locked = true;
  return std::make_unique<Unlocker>(*this, std::move(place.node));
}

absl::StatusOr<uint64_t> MemoryStorage::FreeBytes(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Find("free space of", path, /*follow_last=*/true));
  return space_.free_bytes();
}

}  // namespace

std::unique_ptr<Storage> MakeMemoryStorage(uint64_t capacity_bytes) {
  return std::make_unique<MemoryStorage>(capacity_bytes);
}

}  // namespace shardwright
