// How much of what is read from a checkpoint is checked.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_CHECK_LEVEL_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_CHECK_LEVEL_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright {

enum class CheckLevel {
  kOff,
  kQuick,  // structure: manifest, presence and sizes of files, their headers
  kFull,   // and every byte's checksum
};

// "off", "quick", "full"; kInvalidArgument listing them for anything else.
absl::StatusOr<CheckLevel> ParseCheckLevel(absl::string_view name);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_CHECK_LEVEL_H_
