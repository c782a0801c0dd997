// Strictness over all ranks: what each rank found wrong becomes one list that every rank has.
#ifndef SHARDWRIGHT_CORE_STRATEGY_LOAD_JUDGEMENT_H_
#define SHARDWRIGHT_CORE_STRATEGY_LOAD_JUDGEMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/plan/load_view.h"
#include "shardwright/core/plan/match.h"
#include "shardwright/core/tensor/local_tensor.h"

namespace shardwright {

// Collective. kInvalidArgument, equal on every rank, unless all ranks have the same view.
absl::Status CompareViews(Communicator& comm, const LoadView& view);

struct LoadJudgement {
  std::vector<LoadTensor> tensors;    // to be loaded: equal on every rank
  std::vector<std::string> problems;  // of all ranks, each once; "(rank 1)" where not all ranks have it
};

// Collective. Matches `state` with the view and merges the problems. A tensor that one rank cannot load is loaded by
// none, so that all ranks plan the same. Whether problems are an error is the caller's (strict) decision.
// kInvalidArgument if the ranks' tensors differ beyond that.
absl::StatusOr<LoadJudgement> JudgeLoad(Communicator& comm, const LoadView& view, const LocalState& state,
                                        const MatchOptions& options);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_LOAD_JUDGEMENT_H_
