#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "shardwright/cli/app/train.h"
#include "shardwright/core/base/nearest.h"

namespace shardwright::app {

absl::StatusOr<ModelOptions> ParseModelOptions(absl::string_view text) {
  ModelOptions options;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(absl::StripAsciiWhitespace(part), absl::MaxSplits('=', 1));
    if (pair.first.empty() || pair.second.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("model options: want name=value,..., got \"", part, "\""));
    }
    if (!options.emplace(pair).second) {
      return absl::InvalidArgumentError(absl::StrCat("model options: \"", pair.first, "\" is given twice"));
    }
  }
  return options;
}

absl::StatusOr<ModelOptions> CompleteModelOptions(absl::string_view model, const ModelFactory& factory,
                                                  const ModelOptions& given) {
  std::vector<std::string> names;
  for (const auto& [name, value] : factory.defaults) names.push_back(name);
  ModelOptions complete = factory.defaults;
  for (const auto& [name, value] : given) {
    if (complete.count(name) == 0) {
      const std::string nearest = NearestName(name, names);
      return absl::InvalidArgumentError(
          absl::StrCat("model ", model, " has no option \"", name, "\"",
                       nearest.empty() ? "" : absl::StrCat(", did you mean \"", nearest, "\"?"),
                       " (it has: ", absl::StrJoin(names, ", "), ")"));
    }
    complete[name] = value;
  }
  return complete;
}

}  // namespace shardwright::app
