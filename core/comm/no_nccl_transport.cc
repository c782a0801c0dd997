// nccl_transport.h in builds without --config=cuda.
#include "shardwright/core/comm/nccl_transport.h"

namespace shardwright {

absl::Status CheckNcclBuilt() {
  return absl::UnimplementedError(
      "ranks on GPUs talk over NCCL, and this program was built without it: build it with --config=cuda");
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectNccl(const NcclOptions& options, KeyValueStore& store) {
  return CheckNcclBuilt();
}

}  // namespace shardwright
