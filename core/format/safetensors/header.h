// The header of a safetensors file: u64 little-endian length, JSON, then the data section. Checked as strictly as the
// reference reader does: at most 100,000,000 bytes of header, offsets that tile the data without gap or overlap,
// lengths that equal dtype times shape, no name twice.
#ifndef SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_HEADER_H_
#define SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/manifest/box.h"
#include "shardwright/core/manifest/dtype.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright::safetensors {

struct Entry {
  std::string name;
  DType dtype = DType::kInvalid;
  Shape shape;
  uint64_t begin_bytes = 0;  // in the data section
  uint64_t end_bytes = 0;
  friend bool operator==(const Entry&, const Entry&) = default;
};

struct Header {
  std::vector<Entry> entries;                   // in order of begin_bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"
  friend bool operator==(const Header&, const Header&) = default;
};

// Length prefix, JSON and padding with spaces so that the data section starts at a multiple of `alignment_bytes`.
// kInvalidArgument if the header would exceed the cap, and for types that such files cannot hold. Deterministic.
absl::StatusOr<std::string> EncodeHeader(const Header& header, uint64_t alignment_bytes = 64);

// `bytes` begins with the file's length prefix and holds at least the whole header; `file_bytes` is the file's size.
// kDataLoss for damage (says what and where), kUnimplemented naming tensor and dtype for dtypes we lack. F4, of which
// two values share a byte, becomes kFloat4E2M1x2, whose shape counts bytes: [2, 4] is [2, 2].
absl::StatusOr<Header> DecodeHeader(absl::string_view bytes, uint64_t file_bytes);

struct OpenedHeader {
  Header header;
  uint64_t data_begin_bytes = 0;  // where the data section starts in the file
};
// Reads just the header. Allocates at most the cap, and never more than the file has.
absl::StatusOr<OpenedHeader> ReadHeader(const ReadFile& file, absl::string_view path);

}  // namespace shardwright::safetensors

#endif  // SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_HEADER_H_
