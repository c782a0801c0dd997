#include "shardwright/core/models/option_reader.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/nearest.h"

namespace shardwright {

OptionReader::OptionReader(absl::string_view model, const ModelOptions& given, ModelOptions defaults)
    : model_(model), values_(std::move(defaults)) {
  std::vector<std::string> known;
  for (const auto& [name, value] : values_) known.push_back(name);
  for (const auto& [name, value] : given) {
    if (const auto found = values_.find(name); found != values_.end()) {
      found->second = value;
      continue;
    }
    const std::string nearest = NearestName(name, known);
    AddProblem(absl::StrCat("unknown option \"", name, "\"",
                            nearest.empty() ? absl::StrCat(" (known: ", absl::StrJoin(known, ", "), ")")
                                            : absl::StrCat(", did you mean \"", nearest, "\"?")));
  }
}

int64_t OptionReader::Int(absl::string_view name, int64_t low, int64_t high) {
  int64_t value = low;
  if (!absl::SimpleAtoi(Text(name), &value) || value < low || value > high) {
    AddBadValue(name, absl::StrCat("a whole number from ", low, " to ", high));
    return low;
  }
  return value;
}

double OptionReader::Double(absl::string_view name, double low, double high) {
  double value = low;
  // Written so that NaN is refused.
  if (!absl::SimpleAtod(Text(name), &value) || !(value >= low && value <= high)) {
    AddBadValue(name, absl::StrCat("a number from ", low, " to ", high));
    return low;
  }
  return value;
}

bool OptionReader::Bool(absl::string_view name) {
  bool value = false;
  if (!absl::SimpleAtob(Text(name), &value)) AddBadValue(name, "true or false");
  return value;
}

const std::string& OptionReader::Text(absl::string_view name) const {
  const auto found = values_.find(std::string(name));
  SW_CHECK(found != values_.end());
  return found->second;
}

void OptionReader::AddBadValue(absl::string_view name, absl::string_view expected) {
  AddProblem(absl::StrCat("option ", name, " is \"", Text(name), "\", expected ", expected));
}

absl::Status OptionReader::status() const {
  if (problems_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model ", model_, ": ", absl::StrJoin(problems_, "; ")));
}

}  // namespace shardwright
