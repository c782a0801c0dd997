// Checksums: CRC32C for integrity (isa-l), CRC32 for zip files (isa-l), XXH3-128 as content hash (xxhash).
#ifndef SHARDWRIGHT_CORE_BASE_CHECKSUM_H_
#define SHARDWRIGHT_CORE_BASE_CHECKSUM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shardwright {

// Bytes of a shard that one CRC32C covers.
inline constexpr uint64_t kChecksumChunkBytes = 64 * 1024;

// Standard CRC32C (Castagnoli; "123456789" -> 0xE3069283). `crc` continues an earlier result.
uint32_t Crc32c(absl::Span<const char> bytes, uint32_t crc = 0);
// Standard CRC32 of zip and gzip ("123456789" -> 0xCBF43926).
uint32_t Crc32(absl::Span<const char> bytes, uint32_t crc = 0);

// 128-bit XXH3 (seed 0); equality of content. Not cryptographic.
struct ContentHash {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const ContentHash&, const ContentHash&) = default;
  // 32 lowercase hex digits.
  std::string ToString() const;
};
ContentHash HashContent(absl::Span<const char> bytes);

// Streams a shard's bytes into chunk CRCs and its content hash. Thread-compatible.
class ShardHasher {
 public:
  ShardHasher();
  ~ShardHasher();
  ShardHasher(ShardHasher&&) noexcept;
  ShardHasher& operator=(ShardHasher&&) noexcept;

  void Update(absl::Span<const char> bytes);
  // CRCs of every started chunk, the last one perhaps short. Call once, after the last Update.
  std::vector<uint32_t> FinishChunks();
  ContentHash FinishHash() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_BASE_CHECKSUM_H_
