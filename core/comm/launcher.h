// The built-in launcher: runs one node's ranks as child processes of this one.
//
// One failing rank ends all: its error is shown first, the others get SIGTERM, then (after a grace period) SIGKILL, and
// the launcher exits as the first failing rank did. SIGINT and SIGTERM are forwarded once to every rank; a second one
// kills. No orphan is left: children die with the launcher (PR_SET_PDEATHSIG) and run in its process group.
#ifndef SHARDWRIGHT_CORE_COMM_LAUNCHER_H_
#define SHARDWRIGHT_CORE_COMM_LAUNCHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace shardwright {

struct LaunchOptions {
  int32_t ranks = 1;
  int32_t store_port = 0;                    // where the launcher hosts the store
  absl::Duration grace = absl::Seconds(30);  // between SIGTERM and SIGKILL once a rank has failed
};

// Runs `argv` (argv[0]: path of the program) `ranks` times with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT and SHARDWRIGHT_STORE_HOSTED=1 set; divides OMP_NUM_THREADS among the ranks unless it is
// set. Standard output and error are inherited; every rank may print. Returns the exit status to leave with (128 +
// signal for a killed rank).
absl::StatusOr<int> LaunchRanks(const std::vector<std::string>& argv, const LaunchOptions& options);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_LAUNCHER_H_
