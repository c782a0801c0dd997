// Load order: how the ranks of a node share the work of reading. A policy, advised by the writer, decided by the
// reader.
#ifndef SHARDWRIGHT_CORE_MANIFEST_LOAD_ORDER_H_
#define SHARDWRIGHT_CORE_MANIFEST_LOAD_ORDER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright {

// Persisted by number.
enum class LoadMode : uint8_t {
  kAuto = 0,        // the least predicted time that fits the budget
  kConcurrent = 1,  // all ranks of a node at once
  kSerialized = 2,  // max_concurrent_per_node ranks at a time
  kBroadcast = 3,   // one reader per replica group and node
};

struct LoadOrder {
  LoadMode mode = LoadMode::kAuto;
  int32_t max_concurrent_per_node = 1;      // serialized only
  uint64_t window_bytes = 8 * 1024 * 1024;  // bytes of one read in flight; staging per reader
  friend bool operator==(const LoadOrder&, const LoadOrder&) = default;
};

absl::string_view LoadModeName(LoadMode mode);
// kInvalidArgument listing the known modes.
absl::StatusOr<LoadMode> ParseLoadMode(absl::string_view name);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_LOAD_ORDER_H_
