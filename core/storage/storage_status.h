// What storages say when they fail: one wording and one table of codes for every backend.
#ifndef SHARDWRIGHT_CORE_STORAGE_STORAGE_STATUS_H_
#define SHARDWRIGHT_CORE_STORAGE_STORAGE_STATUS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shardwright {

// As much of a lock file as is read and shown.
inline constexpr size_t kMaxHolderBytes = 1024;

// "<operation> <path>: <strerror>", and " (<detail>)" where there is one. The code is what Storage promises.
absl::Status ErrnoStatus(absl::string_view operation, absl::string_view path, int error_number,
                         absl::string_view detail = "");

// kDataLoss: a read got less than it wanted.
absl::Status EndOfFileStatus(absl::string_view path, uint64_t offset_bytes, uint64_t expected_bytes,
                             uint64_t got_bytes);

// kUnavailable: somebody else has the lock; `holder` is the lock file's content.
absl::Status LockHeldStatus(absl::string_view path, absl::string_view holder);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STORAGE_STORAGE_STATUS_H_
