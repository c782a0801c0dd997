// FENCE (the .cc, not this header): memory of GPUs over NCCL, in builds with --config=cuda. Private to core/comm.
//
// NCCL's own interface rather than c10d's ProcessGroupNCCL: that one's headers must meet the very nccl.h that LibTorch
// was built with (its options embed a struct that grows with NCCL's versions), and its watchdog ends the process where
// we return a Status.
#ifndef SHARDWRIGHT_CORE_COMM_NCCL_TRANSPORT_H_
#define SHARDWRIGHT_CORE_COMM_NCCL_TRANSPORT_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/key_value_store.h"
#include "shardwright/core/comm/transport.h"

namespace shardwright {

// kUnimplemented, saying what to do, in a build without --config=cuda.
absl::Status CheckNcclBuilt();

struct NcclOptions {
  int32_t rank = 0;
  int32_t size = 1;
  int32_t device_index = 0;                    // each rank of a machine has a GPU of its own
  absl::Duration timeout = absl::Minutes(10);  // of connecting, and of starting a transfer
};
// Connects with all ranks, which meet at `store`. Transfers are of that device's memory.
absl::StatusOr<std::unique_ptr<Transport>> ConnectNccl(const NcclOptions& options, KeyValueStore& store);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_NCCL_TRANSPORT_H_
