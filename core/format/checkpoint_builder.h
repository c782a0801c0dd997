// Collects what a reader finds in foreign files and makes an OpenedCheckpoint of it.
//
//   CheckpointBuilder builder(storage, folder);
//   SW_ASSIGN_OR_RETURN(auto file, builder.Open("model.pt"));
//   builder.AddTensor(meta, {piece});
//   return builder.Finish("torch_zip");
#ifndef SHARDWRIGHT_CORE_FORMAT_CHECKPOINT_BUILDER_H_
#define SHARDWRIGHT_CORE_FORMAT_CHECKPOINT_BUILDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/computed/piece.h"
#include "shardwright/core/format/format.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

// Thread-compatible. Borrows the storage.
class CheckpointBuilder {
 public:
  CheckpointBuilder(Storage& storage, absl::string_view directory);

  struct File {
    uint32_t index = 0;
    std::shared_ptr<const ReadFile> file;
  };
  // Opens a file of the folder and lists it. Its handle lives as long as the caller keeps it.
  absl::StatusOr<File> Open(absl::string_view relative_path);

  // Adds a tensor of these pieces, whose boxes must tile it. Plain pieces become shards; if one is not plain, the
  // tensor is computed. A tensor that is bit for bit in the place of an earlier one of its role, type and shape becomes
  // its alias, unless it is optimizer state, of which each parameter has its own.
  void AddTensor(TensorMeta meta, std::vector<Piece> pieces);
  // A second name of a tensor that is (or will be) there. The type and shape are the target's.
  void AddAlias(TensorMeta meta, absl::string_view target);
  void AddChecksum(const ForeignChecksum& checksum) { checksums_.push_back(checksum); }
  void AddNote(std::string note);
  bool HasTensor(absl::string_view name) const { return names_.contains(name); }
  // Null if there is none of that name.
  const TensorMeta* FindTensor(absl::string_view name) const;
  // `name`, or where it is taken, the first of name~2, name~3... that is not.
  std::string FreeName(absl::string_view name) const;

  Value::Map& extras() { return data_.extras; }
  ManifestData& data() { return data_; }
  const std::string& directory() const { return directory_; }
  Storage& storage() { return storage_; }

  // kDataLoss naming the tensor for what Manifest::Create refuses.
  absl::StatusOr<OpenedCheckpoint> Finish(absl::string_view format) &&;

 private:
  struct Computed {
    TensorMeta meta;
    std::vector<Piece> pieces;
  };
  using Place = std::tuple<Role, DType, Shape, uint32_t, uint64_t>;

  Storage& storage_;
  const std::string directory_;
  ManifestData data_;
  std::vector<Computed> computed_;
  std::vector<ForeignChecksum> checksums_;
  std::vector<std::string> notes_;
  size_t notes_left_out_ = 0;
  absl::flat_hash_map<std::string, uint32_t> files_;
  absl::flat_hash_map<std::string, size_t> names_;  // index into data_.tensors
  absl::flat_hash_map<Place, std::string> places_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_CHECKPOINT_BUILDER_H_
