// A file that torch.save wrote, taken apart: the object's pickle as a graph, and where the bytes of its storages lie.
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_TORCH_FILE_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_TORCH_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/pickle/graph.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright::torch_format {

// Bytes of one storage.
struct StorageBytes {
  uint64_t offset_bytes = 0;  // in the file that was given
  uint64_t stored_bytes = 0;
  uint64_t bytes = 0;  // inflated
  uint32_t crc32 = 0;  // of the inflated bytes; 0: none
  bool deflated = false;
};

struct TorchFile {
  pickle::Graph graph;
  bool big_endian = false;
  absl::flat_hash_map<std::string, StorageBytes> storages;  // by key
};

inline constexpr absl::string_view kZipMagic("PK\x03\x04", 4);
inline constexpr absl::string_view kLegacyMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);

// The zip archive that torch has written since 1.6. kDataLoss for damage and for pickles that name what would act;
// kUnimplemented for TorchScript archives.
absl::StatusOr<TorchFile> ReadTorchZip(const std::shared_ptr<const ReadFile>& file);

// The stream of pickles that torch wrote before.
absl::StatusOr<TorchFile> ReadTorchLegacy(const std::shared_ptr<const ReadFile>& file);

// Whichever of the two it is. kDataLoss naming what the file is instead, if it is neither.
absl::StatusOr<TorchFile> ReadTorchFile(const std::shared_ptr<const ReadFile>& file);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_TORCH_FILE_H_
