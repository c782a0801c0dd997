#include "shardwright/core/base/checksum.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "isa-l.h"
#include "shardwright/core/base/check.h"
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
// Picks SSE2, AVX2 or AVX-512 when the program runs; the plain header is bound to what the library was compiled for.
#include "xxh_x86dispatch.h"
#else
#include "xxhash.h"
#endif

namespace shardwright {
namespace {

// crc32_iscsi counts in int.
constexpr size_t kMaxCrcPieceBytes = size_t{1} << 30;

ContentHash FromXxh(XXH128_hash_t hash) {
  return {.high = hash.high64, .low = hash.low64};
}

}  // namespace

uint32_t Crc32c(absl::Span<const char> bytes, uint32_t crc) {
  // isa-l's function leaves the inversions before and after to its caller.
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const absl::Span<const char> piece = bytes.subspan(0, kMaxCrcPieceBytes);
    // It takes a pointer to non-const and only reads.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(piece.data()));
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes.remove_prefix(piece.size());
  }
  return ~state;
}

uint32_t Crc32(absl::Span<const char> bytes, uint32_t crc) {
  // isa-l's name for zip's CRC32; this one inverts by itself.
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::string ContentHash::ToString() const {
  return absl::StrFormat("%016x%016x", high, low);
}

ContentHash HashContent(absl::Span<const char> bytes) {
  return FromXxh(XXH3_128bits(bytes.data(), bytes.size()));
}

struct ShardHasher::State {
  State() : hash(XXH3_createState()) {
    SW_CHECK(hash != nullptr);
    XXH3_128bits_reset(hash.get());
  }

  struct FreeHash {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, FreeHash> hash;
  std::vector<uint32_t> finished_chunks;
  uint32_t chunk_crc = 0;
  uint64_t chunk_bytes = 0;  // of the chunk in work
};

ShardHasher::ShardHasher() : state_(std::make_unique<State>()) {}
ShardHasher::~ShardHasher() = default;
ShardHasher::ShardHasher(ShardHasher&&) noexcept = default;
ShardHasher& ShardHasher::operator=(ShardHasher&&) noexcept = default;

void ShardHasher::Update(absl::Span<const char> bytes) {
  // Chunk by chunk, so that the second hash finds the bytes in the cache.
  while (!bytes.empty()) {
    const absl::Span<const char> piece = bytes.subspan(0, kChecksumChunkBytes - state_->chunk_bytes);
    state_->chunk_crc = Crc32c(piece, state_->chunk_crc);
    XXH3_128bits_update(state_->hash.get(), piece.data(), piece.size());
    state_->chunk_bytes += piece.size();
    if (state_->chunk_bytes == kChecksumChunkBytes) {
      state_->finished_chunks.push_back(std::exchange(state_->chunk_crc, 0));
      state_->chunk_bytes = 0;
    }
    bytes.remove_prefix(piece.size());
  }
}

std::vector<uint32_t> ShardHasher::FinishChunks() {
  if (state_->chunk_bytes > 0) {
    state_->finished_chunks.push_back(std::exchange(state_->chunk_crc, 0));
    state_->chunk_bytes = 0;
  }
  return std::move(state_->finished_chunks);
}

ContentHash ShardHasher::FinishHash() const {
  return FromXxh(XXH3_128bits_digest(state_->hash.get()));
}

}  // namespace shardwright
