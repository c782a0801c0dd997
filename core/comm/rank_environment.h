// Who this process is: its rank and world, from the environment.
//
//   torchrun, our launcher   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
//   SLURM (srun)             SLURM_PROCID SLURM_NTASKS SLURM_LOCALID and tasks per node; the address is MASTER_ADDR or
//   the
//                            first host of the step's or job's node list, the port MASTER_PORT or derived from the
//                            job's id
//   neither                  a single process
#ifndef SHARDWRIGHT_CORE_COMM_RANK_ENVIRONMENT_H_
#define SHARDWRIGHT_CORE_COMM_RANK_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright {

struct RankEnvironment {
  int32_t rank = 0;
  int32_t world_size = 1;
  int32_t local_rank = 0;
  int32_t local_world_size = 1;
  std::string master_address = "127.0.0.1";
  int32_t master_port = 0;
  bool store_is_hosted = false;  // someone else (launcher, torchrun's agent) serves the store; else rank 0 does
  int32_t attempt = 0;           // torchrun's restarts so far: its agent's store outlives them
  std::string source;            // "torchrun", "SLURM", "launcher", "single process"

  friend bool operator==(const RankEnvironment&, const RankEnvironment&) = default;
};

// kInvalidArgument naming the variable, what it holds and what is expected, for half-set or impossible environments
// (rank 4 of 4). `getenv` is injected for tests; an empty value counts as absent.
absl::StatusOr<RankEnvironment> ReadRankEnvironment(
    const std::function<std::optional<std::string>(const char* name)>& getenv);
absl::StatusOr<RankEnvironment> ReadRankEnvironment();

// The first host of a SLURM node list: "gpu[03-07,12],login1" -> "gpu03".
absl::StatusOr<std::string> FirstSlurmHost(absl::string_view node_list);

// Tasks on node `node` of SLURM's "4(x2),3": 4, 4, 3.
absl::StatusOr<int32_t> SlurmTasksOnNode(absl::string_view tasks_per_node, int32_t node);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_RANK_ENVIRONMENT_H_
