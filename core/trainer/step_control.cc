#include "shardwright/core/trainer/step_control.h"

#include <csignal>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

// Neither names of links nor text have a NUL.
constexpr char kSeparator = '\0';

std::string WithoutSeparator(absl::string_view text) {
  return absl::StrReplaceAll(text, {{absl::string_view(&kSeparator, 1), " "}});
}

absl::StatusOr<bool> DecodeFlag(absl::string_view text) {
  if (text == "0" || text == "1") return text == "1";
  return absl::InternalError("a decision of rank 0 cannot be read: a flag is neither 0 nor 1");
}

}  // namespace

absl::StatusOr<StepAgreement> AgreeOnStep(Communicator& control, const StepAgreement& mine) {
  double sums[] = {mine.loss, mine.stop_signal == SIGTERM ? 1.0 : 0.0, mine.stop_signal == SIGINT ? 1.0 : 0.0,
                   mine.decision_due && control.rank() == 0 ? 1.0 : 0.0};
  SW_RETURN_IF_ERROR(control.AllReduce(sums, std::size(sums), DType::kFloat64, ReduceOp::kSum));
  return StepAgreement{.loss = sums[0] / control.size(),
                       .stop_signal = sums[1] > 0 ? SIGTERM : (sums[2] > 0 ? SIGINT : 0),
                       .decision_due = sums[3] > 0};
}

std::string EncodeAction(const Action& action) {
  std::vector<std::string> fields = {action.save ? "1" : "0", action.stop ? "1" : "0",
                                     WithoutSeparator(action.stop_reason)};
  for (const std::string& link : action.links) fields.push_back(WithoutSeparator(link));
  return absl::StrJoin(fields, absl::string_view(&kSeparator, 1));
}

absl::StatusOr<Action> DecodeAction(absl::string_view message) {
  const std::vector<std::string> fields = absl::StrSplit(message, kSeparator);
  if (fields.size() < 3) return absl::InternalError("a decision of rank 0 cannot be read: it is cut off");
  Action action;
  SW_ASSIGN_OR_RETURN(action.save, DecodeFlag(fields[0]));
  SW_ASSIGN_OR_RETURN(action.stop, DecodeFlag(fields[1]));
  action.stop_reason = fields[2];
  action.links.assign(fields.begin() + 3, fields.end());
  return action;
}

absl::StatusOr<Action> ShareAction(Communicator& control, const Action& mine) {
  SW_ASSIGN_OR_RETURN(const std::string message, control.BroadcastBytes(EncodeAction(mine), 0));
  return DecodeAction(message);
}

absl::StatusOr<std::string> OnRankZero(Communicator& control,
                                       const std::function<absl::StatusOr<std::string>()>& work) {
  absl::StatusOr<std::string> answer = std::string();
  if (control.rank() == 0) answer = work();
  SW_RETURN_IF_ERROR(AgreeOnStatus(control, answer.status()));
  return control.BroadcastBytes(*answer, 0);
}

}  // namespace shardwright
