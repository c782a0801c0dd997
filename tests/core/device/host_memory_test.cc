#include "shardwright/core/device/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>

namespace shardwright {
namespace {

TEST(AvailableHostBytes, IsSomethingAndNoMoreThanTheMachineHas) {
  const uint64_t total = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  EXPECT_GT(AvailableHostBytes(), 0u);
  EXPECT_LE(AvailableHostBytes(), total);
}

}  // namespace
}  // namespace shardwright
