// One rank of c10d_process_test, as a process of its own. Usage: c10d_rank <mode> <timeout_ms> <grace_ms>; what it ends
// with is written to $OUT/status.<rank>, and is its exit status: 0, 3 for its own failure, 4 for another's.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/comm/rank_environment.h"

namespace shardwright {
namespace {

// The last rank, or rank 0 in modes that end in "0", is the one that misbehaves.
absl::Status Misbehave(const std::string& mode, CommGroups& groups) {
  if (mode == "kill" || mode == "kill0") raise(SIGKILL);
  if (mode == "stop" || mode == "stop0") raise(SIGSTOP);
  if (mode == "sleep") absl::SleepFor(absl::Seconds(600));
  if (mode == "fail") return absl::DataLossError("disk on fire");
  return absl::OkStatus();  // "leave": well, but too early
}

absl::Status Work(const std::string& mode, CommGroups& groups) {
  std::vector<float> values(100000, static_cast<float>(groups.rank() + 1));
  SW_RETURN_IF_ERROR(groups.data->AllReduce(values.data(), 100000, DType::kFloat32, ReduceOp::kSum));
  if (values[99999] != static_cast<float>(groups.size() * (groups.size() + 1)) / 2)
    return absl::InternalError("wrong sum");
  if (mode == "well") return groups.checkpoint->Barrier();
  const bool mine = groups.rank() == (mode.back() == '0' ? 0 : groups.size() - 1);
  return mine ? Misbehave(mode, groups) : groups.data->Barrier();
}

absl::Status Run(const std::string& mode, const C10dOptions& options) {
  SW_ASSIGN_OR_RETURN(const RankEnvironment environment, ReadRankEnvironment());
  if (mode == "absent" && environment.rank == environment.world_size - 1) return absl::OkStatus();
  SW_ASSIGN_OR_RETURN(CommGroups groups, ConnectC10d(environment, options));
  const absl::Status status = Work(mode, groups);
  if (!status.ok()) groups.Abandon(status);
  if (mode == "fail" && absl::IsDataLoss(status)) absl::SleepFor(absl::Milliseconds(300));  // the last to exit
  return status;
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) {
  int timeout_ms = 0, grace_ms = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[2], &timeout_ms) || !absl::SimpleAtoi(argv[3], &grace_ms)) return 2;
  const absl::Status status =
      shardwright::Run(argv[1], {.timeout = absl::Milliseconds(timeout_ms), .grace = absl::Milliseconds(grace_ms)});
  std::ofstream(absl::StrCat(getenv("OUT"), "/status.", getenv("RANK"))) << status.ToString();
  return status.ok() ? 0 : absl::IsDataLoss(status) ? 3 : 4;
}
