// Values as bytes that are the same on every machine, to be hashed and compared between ranks.
#ifndef SHARDWRIGHT_CORE_PLAN_CANONICAL_BYTES_H_
#define SHARDWRIGHT_CORE_PLAN_CANONICAL_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/manifest/tensor_meta.h"

namespace shardwright {

// Appends values in one byte order, every length spelt out, so that different views cannot give the same bytes.
class CanonicalBytes {
 public:
  void Add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<char>(value >> shift));
  }
  void Add(absl::string_view text) {
    Add(uint64_t{text.size()});
    bytes_.append(text.data(), text.size());
  }
  void Add(const ContentHash& hash) {
    Add(hash.high);
    Add(hash.low);
  }
  void Add(const std::vector<int64_t>& values) {
    Add(uint64_t{values.size()});
    for (int64_t value : values) Add(static_cast<uint64_t>(value));
  }
  void Add(const TensorMeta& meta) {
    Add(absl::string_view(meta.name));
    Add(static_cast<uint64_t>(meta.dtype));
    Add(meta.shape);
    Add(static_cast<uint64_t>(meta.role));
    Add(static_cast<uint64_t>(meta.optimizer.index));
    Add(absl::string_view(meta.optimizer.parameter));
    Add(absl::string_view(meta.optimizer.slot));
    Add(uint64_t{meta.trainable});
  }
  ContentHash Hash() const { return HashContent(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_CANONICAL_BYTES_H_
