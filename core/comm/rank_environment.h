// Who this process is: its rank and world, from the environment.
#ifndef SHARDWRIGHT_CORE_COMM_RANK_ENVIRONMENT_H_
#define SHARDWRIGHT_CORE_COMM_RANK_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace shardwright {

struct RankEnvironment {
  int32_t rank = 0;
  int32_t world_size = 1;
  int32_t local_rank = 0;
  int32_t local_world_size = 1;
  std::string master_address = "127.0.0.1";
  int32_t master_port = 0;
  bool store_is_hosted = false;  // someone else (launcher, torchrun's agent) serves the store; else rank 0 does
  std::string source;            // "torchrun", "SLURM", "launcher", "single process"
};

// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun and the built-in launcher); where
// those are absent SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NTASKS_PER_NODE; else one process. kInvalidArgument
// naming the variable, what it holds and what is expected, for half-set or impossible environments (rank 4 of 4).
// `getenv` is injected for tests.
absl::StatusOr<RankEnvironment> ReadRankEnvironment(
    const std::function<std::optional<std::string>(const char* name)>& getenv);
absl::StatusOr<RankEnvironment> ReadRankEnvironment();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_RANK_ENVIRONMENT_H_
