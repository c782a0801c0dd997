// Reads the items of a distributed checkpoint: chunks of tensors as pieces, and other values.
#ifndef SHARDWRIGHT_CORE_FORMAT_DCP_DCP_ITEMS_H_
#define SHARDWRIGHT_CORE_FORMAT_DCP_DCP_ITEMS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/dcp/dcp_metadata.h"
#include "shardwright/core/format/safetensors/header.h"
#include "shardwright/core/manifest/value.h"

namespace shardwright::dcp {

// Thread-compatible. Borrows the builder. Keeps the file open that was read last.
class ItemReader {
 public:
  explicit ItemReader(CheckpointBuilder& builder) : builder_(builder) {}

  // The chunk `box` of a tensor. kDataLoss unless the item holds a tensor of that type and of the box's shape.
  absl::StatusOr<Piece> ReadChunk(const std::string& name, const StoredItem& item, DType dtype, const Box& box);
  // A value that is no tensor.
  absl::StatusOr<Value> ReadValue(const StoredItem& item);

 private:
  // The file, and the item's bytes in it.
  absl::StatusOr<std::shared_ptr<const ReadFile>> OpenItem(const StoredItem& item);
  absl::StatusOr<Piece> ReadArchive(const StoredItem& item, const std::shared_ptr<const ReadFile>& bytes, DType dtype,
                                    const Box& box);
  absl::StatusOr<Piece> ReadFromBlob(const std::string& name, const StoredItem& item, DType dtype, const Box& box);

  CheckpointBuilder& builder_;
  CheckpointBuilder::File open_;
  std::string open_path_;
  // Headers of safetensors blobs, by file and offset, and their entries by name.
  struct Blob {
    safetensors::OpenedHeader opened;
    absl::flat_hash_map<std::string, size_t> by_name;
  };
  std::map<std::pair<std::string, uint64_t>, Blob> blobs_;
};

}  // namespace shardwright::dcp

#endif  // SHARDWRIGHT_CORE_FORMAT_DCP_DCP_ITEMS_H_
