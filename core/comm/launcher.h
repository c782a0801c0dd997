// The built-in launcher: runs one node's ranks as child processes of this one.
//
// One failing rank ends all: the others get SIGTERM, then (after a grace period) SIGKILL, and the launcher exits as the
// failing rank did. The failing rank prints its own error; the launcher's last line says which rank it was, so that
// what the others print as they end does not bury it.
//
// Every rank is in a process group of its own: a Ctrl-C of the terminal reaches the launcher alone, which forwards it,
// so that a rank sees it once. SIGINT, SIGTERM and SIGHUP are forwarded once to every rank; a second one kills. No
// orphan is left: ranks die with the launcher (PR_SET_PDEATHSIG), and with a rank its whole group.
#ifndef SHARDWRIGHT_CORE_COMM_LAUNCHER_H_
#define SHARDWRIGHT_CORE_COMM_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace shardwright {

struct LaunchOptions {
  int32_t ranks = 1;
  int32_t store_port = 0;                    // where the launcher hosts the store
  absl::Duration grace = absl::Seconds(30);  // between SIGTERM and SIGKILL once a rank has failed
  // Asked when a rank has ended badly: which rank told the others first that it failed (HostedStore::FirstFailedRank)?
  // A rank that ends because of another may be the first to exit, and must not take the blame. May be empty.
  std::function<std::optional<int32_t>()> first_failed_rank;
};

// Runs `argv` (argv[0]: path of the program) `ranks` times with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT and SHARDWRIGHT_STORE_HOSTED=1 set; divides OMP_NUM_THREADS among the ranks unless it is
// set. Standard output and error are inherited, standard input is empty; every rank may print. Returns the exit status
// to leave with: 0, the failing rank's (128 + signal for a killed one), or 128 + the signal that was forwarded.
// kUnavailable, kNotFound or kPermissionDenied if the program cannot be started; then no rank is left running.
//
// Blocks the forwarded signals and SIGCHLD in the calling thread meanwhile; threads started before should have them
// blocked (as HostStore's have), else they might take a signal. The calling thread must not end before: ranks die with
// it.
absl::StatusOr<int> LaunchRanks(const std::vector<std::string>& argv, const LaunchOptions& options);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_LAUNCHER_H_
