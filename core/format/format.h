// What reading a checkpoint of any system gives, and what a format has to offer for it.
//
// A reader does not copy tensors: it makes a manifest whose shards point at the bytes where they lie, in the files of
// the other system. Plans and loads then work as on native checkpoints, reading slices. What has no such bytes
// (compressed, strided, conjugated...) is computed: made by a TensorSource, box by box.
#ifndef SHARDWRIGHT_CORE_FORMAT_FORMAT_H_
#define SHARDWRIGHT_CORE_FORMAT_FORMAT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/tensor/source_sink.h"

namespace shardwright {

// A checksum that the other system's file keeps of some of its bytes.
struct ForeignChecksum {
  uint32_t file = 0;  // index into the manifest's files
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  uint32_t crc32 = 0;
};

struct OpenedCheckpoint {
  std::string format;     // name of the row that read it
  std::string directory;  // what the manifest's file paths are relative to
  std::shared_ptr<const Manifest> manifest;
  // Computed tensors (TensorEntry::computed), each read in bounded memory unless its maker says otherwise. Null if
  // there are none. Borrows the Storage.
  std::shared_ptr<const TensorSource> computed;
  std::vector<ForeignChecksum> checksums;
  // What a user should know: classes kept by name, tensors left out, sizes that the index has wrong.
  std::vector<std::string> notes;
};

// What is known of a path before anything of it is parsed.
struct PathFacts {
  std::string path;
  bool is_directory = false;
  std::vector<DirectoryEntry> entries;  // of a directory, sorted by name
  std::string head;                     // of a file, at most 4 KiB
  uint64_t size_bytes = 0;              // of a file

  bool Has(absl::string_view name) const;
  // True if an entry ends so.
  bool HasSuffix(absl::string_view suffix) const;
};

// kNotFound if there is nothing; symlinks are followed.
absl::StatusOr<PathFacts> LookAt(Storage& storage, absl::string_view path);

struct OpenOptions {
  std::string tag;  // which of a DeepSpeed folder's checkpoints; empty: its "latest"
};

// A row of the table. Stateless.
struct CheckpointFormat {
  absl::string_view name;
  // Whether the path is of this format, by its content alone.
  bool (*sniff)(const PathFacts& facts) = nullptr;
  // kDataLoss for damage; kUnimplemented for what is known and not read, naming it.
  absl::StatusOr<OpenedCheckpoint> (*open)(Storage& storage, const PathFacts& facts,
                                           const OpenOptions& options) = nullptr;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_FORMAT_H_
