#include "shardwright/core/base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "absl/strings/ascii.h"

namespace shardwright {
namespace {

// Levenshtein distance, one row at a time; case does not count.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (absl::ascii_tolower(a[i]) == absl::ascii_tolower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& names) {
  std::string nearest;
  size_t least = name.size() + 1;
  for (const std::string& candidate : names) {
    const size_t distance = EditDistance(name, candidate);
    const bool near = distance * 3 <= std::max(name.size(), candidate.size());
    if (near && distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace shardwright
