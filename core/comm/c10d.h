// FENCE (the .cc, not this header): communicators over torch's c10d store and Gloo, and NCCL with --config=cuda.
//
//      rank 0          rank 1          rank 2
//   +----------+    +----------+    +----------+
//   | data     |----| data     |----| data     |    Gloo, and NCCL beside it if its tensors are on GPUs
//   | control  |----| control  |----| control  |    Gloo
//   | checkpt. |----| checkpt. |----| checkpt. |    Gloo
//   +----+-----+    +----+-----+    +----+-----+
//        +---------------+---------------+
//                the store (TCPStore)               holds the board
//
// Each group has connections of its own; each rank a watcher that waits for alarms. Neither Gloo nor NCCL wakes a rank
// that waits for one that has left, nor says who failed. So whoever gives up posts why on the board, raises the alarm
// and breaks the group (Gloo's connections are shut down, NCCL's communicator is aborted): then everybody's calls end
// within milliseconds, and the board names the culprit.
#ifndef SHARDWRIGHT_CORE_COMM_C10D_H_
#define SHARDWRIGHT_CORE_COMM_C10D_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "shardwright/core/comm/c10d_options.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/comm/rank_environment.h"

namespace shardwright {

// Meets all ranks at the store of `environment` and makes the three groups. A world of one needs no store.
// kDeadlineExceeded naming who did not come; kUnavailable if a connection fails; kUnimplemented if `data_device` is a
// GPU in a build without --config=cuda. $GLOO_SOCKET_IFNAME chooses the interface.
//
// Where `data_device` is a GPU, the data group's collectives take memory of that device; they see what the calling
// thread's current torch stream was given before, and Wait returns when the device has done them. Barriers and messages
// are the host's in every group.
//
// Reductions are of U8, I8, I32, I64, F16, BF16, F32, F64, and min and max of BOOL. When the last of the groups is
// destroyed, ranks wait for each other (at most `grace`), so that none cuts off the last collective of another.
absl::StatusOr<CommGroups> ConnectC10d(const RankEnvironment& environment, const C10dOptions& options);

// A store that this process hosts for ranks it launches. Owned by the launcher.
class HostedStore {
 public:
  virtual ~HostedStore() = default;
  virtual int32_t port() const = 0;
  // The rank that was the first to abandon its groups; nullopt if none did.
  virtual std::optional<int32_t> FirstFailedRank() = 0;
};
// Listens on a free port of 127.0.0.1, and there alone. Its threads take no signals.
absl::StatusOr<std::unique_ptr<HostedStore>> HostStore(int32_t world_size);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_C10D_H_
