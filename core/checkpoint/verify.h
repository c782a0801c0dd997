// Verifies checkpoints: every problem is found and listed, not just the first.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_VERIFY_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_VERIFY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/checkpoint/check_level.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

enum class VerifyVerdict {
  kOk,
  kDamaged,     // bytes are not what was written
  kPartial,     // a save that never finished
  kUnsealed,    // structure is good, there are no checksums
  kUnreadable,  // absent, or no permission: says nothing about the bytes
};
absl::string_view VerdictName(VerifyVerdict verdict);

struct VerifyResult {
  std::string path;
  VerifyVerdict verdict = VerifyVerdict::kOk;
  std::vector<std::string> problems;  // each names tensor, shard, file, offset, got and want, as far as they apply
  uint64_t bytes_checked = 0;
  uint64_t shards = 0;
};

// kFull reads every byte, in windows of 1 MiB; kQuick only structure.
VerifyResult VerifyCheckpoint(Storage& storage, absl::string_view path, CheckLevel level);

// As VerifyCheckpoint, of a checkpoint whose manifest is open already.
VerifyResult VerifyOpened(Storage& storage, absl::string_view path, const Manifest& manifest, CheckLevel level);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_VERIFY_H_
