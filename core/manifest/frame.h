// The frame of a manifest file: magic, versions, length and checksums in front of the message, as docs/format.md says.
#ifndef SHARDWRIGHT_CORE_MANIFEST_FRAME_H_
#define SHARDWRIGHT_CORE_MANIFEST_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shardwright {

inline constexpr size_t kFrameHeadBytes = 36;
inline constexpr size_t kMaxMessageBytes = 0x7FFFFFFF;  // protobuf's limit

struct FrameVersions {
  uint32_t format = 0;
  uint32_t min_reader = 0;
};

// Fills the first kFrameHeadBytes of `frame`; the message stands behind them already.
void FillFrameHead(const FrameVersions& versions, absl::Span<char> frame);

// kDataLoss unless `frame` is whole and undamaged; kUnimplemented, naming both versions, if its minimum reader version
// is newer than this reader's.
absl::StatusOr<FrameVersions> CheckFrame(absl::Span<const char> frame);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_FRAME_H_
