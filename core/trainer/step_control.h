// What the ranks agree on around a step: one small reduction a step, and what rank 0 decides.
#ifndef SHARDWRIGHT_CORE_TRAINER_STEP_CONTROL_H_
#define SHARDWRIGHT_CORE_TRAINER_STEP_CONTROL_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/callback/callback.h"
#include "shardwright/core/comm/communicator.h"

namespace shardwright {

struct StepAgreement {
  double loss = 0;            // mean over the ranks
  int stop_signal = 0;        // SIGTERM or SIGINT if any rank received it
  bool decision_due = false;  // rank 0's callbacks may wish something: a decision follows
};

// Collective. One AllReduce. `mine` holds this rank's values.
absl::StatusOr<StepAgreement> AgreeOnStep(Communicator& control, const StepAgreement& mine);

// Collective. Rank 0's wishes on every rank.
absl::StatusOr<Action> ShareAction(Communicator& control, const Action& mine);

// Collective. Runs `work` on rank 0; every rank gets its answer, or its error.
absl::StatusOr<std::string> OnRankZero(Communicator& control, const std::function<absl::StatusOr<std::string>()>& work);

// The message that ShareAction sends. kInternal for one that no rank of this version sends.
std::string EncodeAction(const Action& action);
absl::StatusOr<Action> DecodeAction(absl::string_view message);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_STEP_CONTROL_H_
