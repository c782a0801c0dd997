#include "shardwright/core/plan/match.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shardwright {
namespace {

bool IsOptimizer(const TensorMeta& tensor) {
  return tensor.role == Role::kOptimizer;
}

class Matcher {
 public:
  Matcher(const LoadView& view, const std::vector<std::pair<std::string, std::string>>& aliases,
          const MatchOptions& options)
      : view_(view), options_(options) {
    for (const auto& [alias, target] : aliases) {
      aliases_of_[target].push_back(alias);
      aliases_.insert(alias);
    }
    IndexStateByFields();
  }

  MatchResult Run(const std::vector<TensorMeta>& wanted) {
    for (const TensorMeta& target : wanted) {
      if (options_.load_optimizer || !IsOptimizer(target)) Match(target);
    }
    for (const auto& [name, tensor] : view_.tensors()) {
      if (IsUnexpected(tensor)) result_.problems.push_back(absl::StrCat("unexpected: ", name));
    }
    return std::move(result_);
  }

 private:
  // State whose key is not the one that its fields would give.
  void IndexStateByFields() {
    for (const auto& [name, tensor] : view_.tensors()) {
      if (!IsOptimizer(tensor.meta)) continue;
      std::string key = OptimizerTensorName(tensor.meta.optimizer);
      if (key != name) state_by_fields_.emplace(std::move(key), &tensor);
    }
  }

  void Match(const TensorMeta& target) {
    const ViewTensor* source = FindSource(target);
    if (source == nullptr) {
      result_.problems.push_back(absl::StrCat("missing: ", target.name));
      return;
    }
    used_.insert(source);
    if (source->meta.shape != target.shape) {
      result_.problems.push_back(absl::StrCat("shape of ", target.name, ": checkpoint ",
                                              ShapeToString(source->meta.shape), ", model ",
                                              ShapeToString(target.shape)));
      return;
    }
    if (source->meta.dtype != target.dtype && !MayCast(*source, target)) {
      result_.problems.push_back(absl::StrCat("dtype of ", target.name, ": checkpoint ", DTypeName(source->meta.dtype),
                                              ", model ", DTypeName(target.dtype)));
      return;
    }
    result_.tensors.push_back(LoadTensor{target, *source});
    result_.tensors.back().source.meta.dtype = target.dtype;
  }

  bool MayCast(const ViewTensor& source, const TensorMeta& target) const {
    return options_.allow_dtype_cast && !IsOptimizer(target) && IsCastable(source.stored_dtype, target.dtype);
  }

  const ViewTensor* FindSource(const TensorMeta& target) const {
    if (const ViewTensor* found = view_.Find(target.name)) return found;
    return IsOptimizer(target) ? FindState(target.optimizer) : FindUnderAlias(target.name);
  }

  const ViewTensor* FindUnderAlias(absl::string_view name) const {
    const auto aliases = aliases_of_.find(name);
    if (aliases == aliases_of_.end()) return nullptr;
    for (const std::string& alias : aliases->second) {
      if (const ViewTensor* found = view_.Find(alias)) return found;
    }
    return nullptr;
  }

  // The state of the parameter itself, of its aliases in the model, or of its tied twin in the checkpoint.
  const ViewTensor* FindState(OptimizerField field) const {
    std::vector<std::string> parameters = {field.parameter};
    if (const auto aliases = aliases_of_.find(field.parameter); aliases != aliases_of_.end()) {
      parameters.insert(parameters.end(), aliases->second.begin(), aliases->second.end());
    }
    if (const ViewTensor* parameter = view_.Find(field.parameter)) parameters.push_back(parameter->source);
    for (std::string& parameter : parameters) {
      field.parameter = std::move(parameter);
      const std::string key = OptimizerTensorName(field);
      if (const ViewTensor* found = view_.Find(key)) return found;
      if (const auto found = state_by_fields_.find(key); found != state_by_fields_.end()) return found->second;
    }
    return nullptr;
  }

  bool IsUnexpected(const ViewTensor& tensor) const {
    if (used_.contains(&tensor)) return false;
    if (!IsOptimizer(tensor.meta)) return !aliases_.contains(tensor.meta.name);
    return options_.load_optimizer && !aliases_.contains(tensor.meta.optimizer.parameter);
  }

  const LoadView& view_;
  const MatchOptions& options_;
  absl::flat_hash_map<std::string, std::vector<std::string>> aliases_of_;  // target -> aliases
  absl::flat_hash_set<std::string> aliases_;
  absl::flat_hash_map<std::string, const ViewTensor*> state_by_fields_;
  absl::flat_hash_set<const ViewTensor*> used_;
  MatchResult result_;
};

struct Kind {
  absl::string_view prefix;  // of a problem's line
  absl::string_view title;
};
constexpr std::array<Kind, 4> kKinds = {{{"missing: ", "missing from the checkpoint"},
                                         {"unexpected: ", "in the checkpoint, unknown to the model"},
                                         {"shape of ", "of another shape"},
                                         {"dtype of ", "of another dtype"}}};
constexpr size_t kLinesOfAKind = 20;

size_t KindOf(absl::string_view problem) {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (absl::StrContains(problem, kKinds[i].prefix)) return i;
  }
  return kKinds.size();
}

void AppendKind(absl::string_view title, const std::vector<std::string>& lines, std::string* message) {
  if (lines.empty()) return;
  absl::StrAppend(message, "\n  ", lines.size(), " ", title, ":");
  for (size_t i = 0; i < lines.size() && i < kLinesOfAKind; ++i) absl::StrAppend(message, "\n    ", lines[i]);
  if (lines.size() > kLinesOfAKind) absl::StrAppend(message, "\n    ... and ", lines.size() - kLinesOfAKind, " more");
}

}  // namespace

MatchResult MatchTensors(const LoadView& view, const std::vector<TensorMeta>& wanted,
                         const std::vector<std::pair<std::string, std::string>>& known_aliases,
                         const MatchOptions& options) {
  return Matcher(view, known_aliases, options).Run(wanted);
}

absl::Status ProblemsToStatus(const std::vector<std::string>& problems) {
  if (problems.empty()) return absl::OkStatus();
  std::array<std::vector<std::string>, kKinds.size() + 1> by_kind;
  for (const std::string& problem : problems) by_kind[KindOf(problem)].push_back(problem);
  std::string message = absl::StrCat("the checkpoint does not match the model: ", problems.size(),
                                     problems.size() == 1 ? " difference" : " differences");
  for (size_t i = 0; i < kKinds.size(); ++i) AppendKind(kKinds[i].title, by_kind[i], &message);
  AppendKind("others", by_kind[kKinds.size()], &message);
  absl::StrAppend(&message,
                  "\nrename, drop or cast tensors in OnLoadCheckpoint, or load leniently (strict=false) to skip them");
  return absl::InvalidArgumentError(message);
}

}  // namespace shardwright
