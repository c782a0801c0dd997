// What a disk still has after a power cut.
//
//   names    a create, remove, rename or link survives once its directory was synced (a rename: either directory)
//   bytes    a file's bytes survive once the file was synced; where they do not, the file is as it was synced last
//
// The model follows every change of a storage in two versions, the one now and the durable one, and on Crash() changes
// the storage into the durable one. It knows only what is touched through it: the rest it takes as durable and leaves
// alone; of hard links that were there before, it knows those in one directory. Files are held in memory whole. Use
// either absolute or relative paths to one place, not both.
#ifndef SHARDWRIGHT_TESTS_TESTING_DISK_MODEL_H_
#define SHARDWRIGHT_TESTS_TESTING_DISK_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright::testing {

// One file, directory or symlink, under whatever names.
struct DiskNode {
  struct Name {
    std::shared_ptr<DiskNode> now;      // Null: no such name.
    std::shared_ptr<DiskNode> durable;  // Null: no such name.
  };

  FileType type = FileType::kRegular;
  bool loaded = false;                             // Until then, both versions are what the storage has.
  std::string now_bytes;                           // of a file
  std::string durable_bytes;                       // of a file
  std::string target;                              // of a symlink
  std::map<std::string, Name, std::less<>> names;  // of a directory; those that were touched
  uint64_t links = 0;                              // names that it has now
};
using DiskNodePtr = std::shared_ptr<DiskNode>;

// Where a path leads. `directory` is null where it leads nowhere or has no last name.
struct DiskPlace {
  DiskNodePtr directory;
  std::string name;
  DiskNodePtr node;  // Null if the name is free.
  std::string path;  // without symlinks
};

// Thread-compatible. Borrows the storage.
class DiskModel {
 public:
  explicit DiskModel(Storage& base) : base_(base) { Reset(); }

  // Looks before anything is changed: places are taken first, then the storage works, then the model follows.
  DiskPlace Find(absl::string_view path, bool follow_last);
  // Reads what is at `place`, and below it, so that it can be brought back.
  absl::Status Load(const DiskPlace& place);

  DiskNodePtr Create(const DiskPlace& place, FileType type, absl::string_view target = "");
  void Link(const DiskNodePtr& node, const DiskPlace& place);
  void Remove(const DiskPlace& place);
  void Move(const DiskPlace& from, const DiskPlace& to);
  void Write(const DiskNodePtr& node, uint64_t offset_bytes, absl::Span<const char> bytes);
  void Extend(const DiskNodePtr& node, uint64_t size_bytes);
  void Sync(DiskNode& node) { node.durable_bytes = node.now_bytes; }
  void SyncDirectory(const DiskNodePtr& directory);

  // Changes the storage into what is durable, and starts anew from there. With a seed, what was not synced survives in
  // part, as a real disk may have it: the oldest changes of names in their order, and pages of bytes in any.
  absl::Status Crash(std::optional<uint64_t> seed);

 private:
  // One change, as what names lead to after it; several names change at once or not at all.
  struct Assignment {
    DiskNodePtr directory;
    std::string name;
    DiskNodePtr node;
  };
  using Change = std::vector<Assignment>;

  DiskNodePtr Lookup(DiskNode& directory, const std::string& name, const std::string& path);
  void LookupSiblings(DiskNode& directory, const std::string& path);
  DiskNodePtr Meet(const FileInfo& info, const std::string& path);
  absl::Status LoadNode(DiskNode& node, const std::string& path);
  void Apply(Change change);
  static void MakeDurable(const Change& change);
  void KeepSome(uint64_t seed);
  // Forgets everything: what the storage has is durable.
  void Reset();

  // What is the same in both versions stays in the storage.
  static bool Unchanged(const DiskNode::Name& name);
  absl::Status RemoveChanged(DiskNode& directory, const std::string& path);
  absl::Status RestoreChanged(DiskNode& directory, const std::string& path);
  absl::Status Restore(DiskNode& node, const std::string& path);
  absl::Status RestoreFile(DiskNode& node, const std::string& path);

  Storage& base_;
  DiskNodePtr absolute_root_;
  DiskNodePtr relative_root_;
  std::unordered_map<uint64_t, DiskNodePtr> linked_;         // by inode: files that had several names when first seen
  std::vector<Change> journal_;                              // not durable yet, oldest first
  std::set<DiskNodePtr> written_;                            // files whose bytes were changed
  std::unordered_map<const DiskNode*, std::string> placed_;  // while restoring: where a file is already
};

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_TESTING_DISK_MODEL_H_
