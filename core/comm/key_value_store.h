// What ranks write on and read from while they cannot rely on each other. Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_KEY_VALUE_STORE_H_
#define SHARDWRIGHT_CORE_COMM_KEY_VALUE_STORE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace shardwright {

// Thread-safe; seen by all ranks in one order. kUnavailable if the server is gone.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual absl::Status Set(absl::string_view key, absl::string_view value) = 0;
  // The same value under every key.
  virtual absl::Status SetAll(const std::vector<std::string>& keys, absl::string_view value) = 0;
  // The first writer's value stays.
  virtual absl::Status SetIfAbsent(absl::string_view key, absl::string_view value) = 0;
  // Without waiting.
  virtual absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) = 0;
  virtual absl::StatusOr<bool> HasAll(const std::vector<std::string>& keys) = 0;
  // Adds one to a counter that starts at 0, and returns it.
  virtual absl::StatusOr<int64_t> Increment(absl::string_view key) = 0;
  // False if not all are there in time.
  virtual absl::StatusOr<bool> WaitForAll(const std::vector<std::string>& keys, absl::Duration timeout) = 0;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_KEY_VALUE_STORE_H_
