// N ranks as threads of one process: for tests, and for a world of one. Deterministic sums in rank order. A rank alone
// touches no memory that it is given, which may therefore be a GPU's.
//
//   RunRanks(3, [](CommGroups& groups) { ...; return absl::OkStatus(); });
//
// A collective is a meeting: ranks bring what they have, the last to come computes the result into everybody's memory.
// Ranks whose calls differ (one in Barrier, one in AllReduce) all get kFailedPrecondition saying who called what. A
// rank whose communicator is destroyed has left: those who wait for it end at once.
#ifndef SHARDWRIGHT_CORE_COMM_THREAD_COMMUNICATOR_H_
#define SHARDWRIGHT_CORE_COMM_THREAD_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/communicator.h"

namespace shardwright {

// Index: rank. Each may be used in its own thread. `timeout` is each call's.
std::vector<CommGroups> MakeThreadGroups(int32_t size, absl::Duration timeout = absl::Seconds(30));

// Runs fn on `size` ranks, each in its own thread, and returns the statuses by rank. A rank that returns an error
// abandons its groups, so that the others end. A rank's groups are destroyed when its fn has returned.
std::vector<absl::Status> RunRanks(int32_t size, const std::function<absl::Status(CommGroups& groups)>& fn,
                                   absl::Duration timeout = absl::Seconds(30));

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_THREAD_COMMUNICATOR_H_
