// Strictness: pairs what a module wants with what the (edited) checkpoint has, and lists every difference at once.
#ifndef SHARDWRIGHT_CORE_PLAN_MATCH_H_
#define SHARDWRIGHT_CORE_PLAN_MATCH_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/plan/load_view.h"

namespace shardwright {

struct MatchOptions {
  bool strict = true;  // false: skip what does not match, and say so
  // True: floating types convert to the target's. Optimizer state does not: its precision is part of the optimizer, so
  // it takes an explicit Cast.
  bool allow_dtype_cast = false;
  bool load_optimizer = true;  // false: optimizer tensors are neither wanted nor missed
};

// A wanted tensor and its source.
struct LoadTensor {
  TensorMeta target;  // as the module holds it
  ViewTensor source;  // from the view; its meta.dtype is the target's, its stored_dtype what lies in the files
};

struct MatchResult {
  std::vector<LoadTensor> tensors;  // in the order wanted
  std::vector<std::string>
      problems;  // "missing: a.b" | "unexpected: c.d" | "shape of e: checkpoint [1], model [8]" | "dtype of ..."
};

// `wanted` lists each tensor once, aliases left out: an alias loads through its target. A target is also found under
// any of its aliases' names, and a name that only an alias has is not unexpected (pass the aliases in `known_aliases`,
// name -> target), so tied and untied checkpoints load into each other. Optimizer state is found by its fields, under
// the names that its parameter goes by.
MatchResult MatchTensors(const LoadView& view, const std::vector<TensorMeta>& wanted,
                         const std::vector<std::pair<std::string, std::string>>& known_aliases,
                         const MatchOptions& options);

// All problems in one kInvalidArgument: counted, grouped by kind, at most 20 lines a kind, with what to do next. OK if
// none.
absl::Status ProblemsToStatus(const std::vector<std::string>& problems);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_MATCH_H_
