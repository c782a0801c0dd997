#include "shardwright/core/callback/callback.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shardwright {

void Action::Merge(const Action& other) {
  save |= other.save;
  for (const std::string& link : other.links) {
    if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
  }
  stop |= other.stop;
  if (other.stop_reason.empty() || other.stop_reason == stop_reason) return;
  stop_reason = stop_reason.empty() ? other.stop_reason : absl::StrCat(stop_reason, "; ", other.stop_reason);
}

}  // namespace shardwright
