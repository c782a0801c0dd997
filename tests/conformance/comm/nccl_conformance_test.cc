// NCCL's side of ConnectC10d, where no GPU is needed: NCCL and the CUDA runtime are played by fake_nccl.cc in host
// memory. tests/core/comm:nccl_test is for real devices.
#include <gtest/gtest.h>

#include "shardwright/tests/conformance/comm/c10d_ranks.h"
#include "shardwright/tests/conformance/comm/communicator_conformance.h"

namespace shardwright {
namespace {

std::vector<absl::Status> RunNcclRanks(int32_t size, const RankFunction& fn, absl::Duration timeout) {
  return RunC10dRanks(size, Device::Kind::kCuda, fn, timeout);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorTest, ::testing::Values(Backend{"nccl", &RunNcclRanks}));

}  // namespace shardwright
