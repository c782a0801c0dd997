// Gloo's ranks are threads here; c10d_process_test has real ones.
#include <gtest/gtest.h>

#include "shardwright/tests/conformance/comm/c10d_ranks.h"
#include "shardwright/tests/conformance/comm/communicator_conformance.h"

namespace shardwright {
namespace {

std::vector<absl::Status> RunGlooRanks(int32_t size, const RankFunction& fn, absl::Duration timeout) {
  return RunC10dRanks(size, Device::Kind::kCpu, fn, timeout);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(C10d, CommunicatorTest, ::testing::Values(Backend{"c10d", &RunGlooRanks}));

}  // namespace shardwright
