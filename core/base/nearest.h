// The nearest name to a misspelt one, for error messages.
#ifndef SHARDWRIGHT_CORE_BASE_NEAREST_H_
#define SHARDWRIGHT_CORE_BASE_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace shardwright {

// The name of least edit distance (Levenshtein, ignoring case), the first of equals, or "" if none is near: more than a
// third of the letters differ.
std::string NearestName(absl::string_view name, const std::vector<std::string>& names);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_BASE_NEAREST_H_
