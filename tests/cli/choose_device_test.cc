#include "shardwright/cli/app/choose_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/core/device/cuda.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::app {
namespace {

using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(ChooseDevice, TheCpuIsAlwaysThere) {
  EXPECT_THAT(ChooseDevice("cpu", 3, 4), IsOkAndHolds(Device{}));
}

TEST(ChooseDevice, AutoIsTheCpuWhereThereAreFewerGpusThanRanks) {
  const int32_t devices = CudaDeviceCount();
  EXPECT_THAT(ChooseDevice("auto", devices, devices + 1), IsOkAndHolds(Device{}));
  if (devices > 0) {
    EXPECT_THAT(ChooseDevice("auto", 0, devices), IsOkAndHolds(Device::Cuda(0)));
  }
}

TEST(ChooseDevice, AGpuThatIsNotThereIsRefusedByTheFlagsName) {
  const int32_t devices = CudaDeviceCount();
  // Without --config=cuda, or with it and without that device.
  const auto refused = AnyOf(StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("--config=cuda")),
                             StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("devices")));
  EXPECT_THAT(ChooseDevice("cuda", devices, devices + 1), refused);
  EXPECT_THAT(ChooseDevice("cuda:512", 0, 1), refused);
  EXPECT_THAT(ChooseDevice("cuda:512", 0, 1).status().message(), HasSubstr("--device=cuda:512: "));
}

TEST(ChooseDevice, OtherWordsAreRefused) {
  EXPECT_THAT(ChooseDevice("gpu", 0, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("--device"), HasSubstr("\"gpu\""))));
}

}  // namespace
}  // namespace shardwright::app
