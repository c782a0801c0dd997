#include "shardwright/core/manifest/load_order.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace shardwright {

absl::string_view LoadModeName(LoadMode mode) {
  switch (mode) {
    case LoadMode::kAuto:
      return "auto";
    case LoadMode::kConcurrent:
      return "concurrent";
    case LoadMode::kSerialized:
      return "serialized";
    case LoadMode::kBroadcast:
      return "broadcast";
  }
  return "invalid";
}

absl::StatusOr<LoadMode> ParseLoadMode(absl::string_view name) {
  for (LoadMode mode : {LoadMode::kAuto, LoadMode::kConcurrent, LoadMode::kSerialized, LoadMode::kBroadcast}) {
    if (LoadModeName(mode) == name) return mode;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown load order \"", absl::CHexEscape(name),
                                                 "\" (known: auto, concurrent, serialized, broadcast)"));
}

}  // namespace shardwright
