#include "shardwright/core/checkpoint/check_level.h"

#include "absl/strings/str_cat.h"

namespace shardwright {

absl::StatusOr<CheckLevel> ParseCheckLevel(absl::string_view name) {
  if (name == "off") return CheckLevel::kOff;
  if (name == "quick") return CheckLevel::kQuick;
  if (name == "full") return CheckLevel::kFull;
  return absl::InvalidArgumentError(absl::StrCat("unknown check level \"", name, "\" (known: off, quick, full)"));
}

}  // namespace shardwright
