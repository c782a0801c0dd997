// FENCE (the .cc, not this header): communicators over torch's c10d, Gloo on the host (NCCL with --config=cuda).
#ifndef SHARDWRIGHT_CORE_COMM_C10D_H_
#define SHARDWRIGHT_CORE_COMM_C10D_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/comm/rank_environment.h"

namespace shardwright {

struct C10dOptions {
  absl::Duration timeout = absl::Minutes(10);  // of every collective, and of the rendezvous
  absl::Duration grace = absl::Seconds(5);  // how long survivors wait for each other's word before naming the missing
};

// Meets all ranks at the store of `environment` and makes the three groups. A world of one needs no store.
// kDeadlineExceeded naming who did not come.
absl::StatusOr<CommGroups> ConnectC10d(const RankEnvironment& environment, const C10dOptions& options);

// A store that this process hosts for ranks it launches. Owned by the launcher.
class HostedStore {
 public:
  virtual ~HostedStore() = default;
  virtual int32_t port() const = 0;
};
// Listens on a free port of 127.0.0.1.
absl::StatusOr<std::unique_ptr<HostedStore>> HostStore(int32_t world_size);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_C10D_H_
