// N ranks as threads of one process: for tests. Counts what it is asked; deterministic sums in rank order.
//
//   RunRanks(3, [](CommGroups& groups) { ...; return absl::OkStatus(); });
#ifndef SHARDWRIGHT_CORE_COMM_THREAD_COMMUNICATOR_H_
#define SHARDWRIGHT_CORE_COMM_THREAD_COMMUNICATOR_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/communicator.h"

namespace shardwright {

// Index: rank. Each may be used in its own thread.
std::vector<CommGroups> MakeThreadGroups(int32_t size, absl::Duration timeout = absl::Seconds(30));

// Runs fn on `size` ranks, each in its own thread, and returns the statuses by rank. A rank that returns an error abandons
// its groups, so that the others end.
std::vector<absl::Status> RunRanks(int32_t size, const std::function<absl::Status(CommGroups& groups)>& fn,
                                   absl::Duration timeout = absl::Seconds(30));

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_THREAD_COMMUNICATOR_H_
