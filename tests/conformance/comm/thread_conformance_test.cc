#include <gtest/gtest.h>

#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/tests/conformance/comm/communicator_conformance.h"

namespace shardwright {

INSTANTIATE_TEST_SUITE_P(Thread, CommunicatorTest, ::testing::Values(Backend{"thread", &RunRanks}));

}  // namespace shardwright
