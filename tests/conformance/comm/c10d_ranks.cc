#include "shardwright/tests/conformance/comm/c10d_ranks.h"

#include <memory>
#include <thread>

#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/comm/rank_environment.h"

namespace shardwright {

std::vector<absl::Status> RunC10dRanks(int32_t size, Device::Kind kind,
                                       const std::function<absl::Status(CommGroups& groups)>& fn,
                                       absl::Duration timeout) {
  absl::StatusOr<std::unique_ptr<HostedStore>> store = HostStore(size);
  std::vector<absl::Status> statuses(size, store.status());
  if (!store.ok()) return statuses;
  const auto run = [&](int32_t rank) -> absl::Status {
    const RankEnvironment environment = {.rank = rank,
                                         .world_size = size,
                                         .local_rank = rank,
                                         .local_world_size = size,
                                         .master_port = (*store)->port(),
                                         .store_is_hosted = true,
                                         .source = "launcher"};
    const Device device = kind == Device::Kind::kCuda ? Device::Cuda(rank) : Device{};
    SW_ASSIGN_OR_RETURN(
        CommGroups groups,
        ConnectC10d(environment, {.data_device = device, .timeout = timeout, .grace = absl::Seconds(2)}));
    const absl::Status status = fn(groups);
    if (!status.ok()) groups.Abandon(status);
    return status;
  };
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { statuses[rank] = run(rank); });
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace shardwright
