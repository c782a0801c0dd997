// Gloo's ranks are threads here, each with its own connections to a store in this process; c10d_process_test has real
// ones.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/comm/rank_environment.h"
#include "shardwright/tests/conformance/comm/communicator_conformance.h"

namespace shardwright {
namespace {

absl::Status RunRank(const RankEnvironment& environment, const RankFunction& fn, absl::Duration timeout) {
  SW_ASSIGN_OR_RETURN(CommGroups groups, ConnectC10d(environment, {.timeout = timeout, .grace = absl::Seconds(2)}));
  const absl::Status status = fn(groups);
  if (!status.ok()) groups.Abandon(status);
  return status;
}

std::vector<absl::Status> RunC10dRanks(int32_t size, const RankFunction& fn, absl::Duration timeout) {
  absl::StatusOr<std::unique_ptr<HostedStore>> store = HostStore(size);
  std::vector<absl::Status> statuses(size, store.status());
  if (!store.ok()) return statuses;
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const RankEnvironment environment = {.rank = rank,
                                           .world_size = size,
                                           .local_rank = rank,
                                           .local_world_size = size,
                                           .master_port = (*store)->port(),
                                           .store_is_hosted = true,
                                           .source = "launcher"};
      statuses[rank] = RunRank(environment, fn, timeout);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(C10d, CommunicatorTest, ::testing::Values(Backend{"c10d", &RunC10dRanks}));

}  // namespace shardwright
