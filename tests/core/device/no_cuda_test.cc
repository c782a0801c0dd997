// cuda.h without --config=cuda.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/core/device/cuda.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

TEST(NoCuda, SeesNoDeviceAndSaysWhatToDo) {
  const auto refusal = StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("build it with --config=cuda"));
  EXPECT_EQ(CudaDeviceCount(), 0);
  EXPECT_THAT(SetCudaDevice(0), refusal);
  EXPECT_THAT(AllocatePinned(4096), refusal);
  EXPECT_THAT(MakeCopyStream(0), refusal);
}

}  // namespace
}  // namespace shardwright
