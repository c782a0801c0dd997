#include "shardwright/core/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DeviceSurroundings kThirdOfFour = {.local_rank = 2, .local_world_size = 4, .cuda_devices = 4};

TEST(ParseDevice, TakesTheNamedDevice) {
  EXPECT_THAT(ParseDevice("cpu", kThirdOfFour), IsOkAndHolds(Device{}));
  EXPECT_THAT(ParseDevice("cuda:0", kThirdOfFour), IsOkAndHolds(Device::Cuda(0)));
  EXPECT_THAT(ParseDevice("cuda:12", kThirdOfFour), IsOkAndHolds(Device::Cuda(12)));
}

TEST(ParseDevice, CudaIsTheLocalRanksOwn) {
  EXPECT_THAT(ParseDevice("cuda", kThirdOfFour), IsOkAndHolds(Device::Cuda(2)));
  EXPECT_THAT(ParseDevice("cuda", {}), IsOkAndHolds(Device::Cuda(0)));
}

TEST(ParseDevice, AutoTakesGpusWhereThereIsOneForEveryRank) {
  EXPECT_THAT(ParseDevice("auto", kThirdOfFour), IsOkAndHolds(Device::Cuda(2)));
  EXPECT_THAT(ParseDevice("auto", {.local_rank = 0, .local_world_size = 4, .cuda_devices = 3}), IsOkAndHolds(Device{}));
  EXPECT_THAT(ParseDevice("auto", {}), IsOkAndHolds(Device{}));
}

TEST(ParseDevice, RefusesAllElse) {
  for (const char* text : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1 ",
                           "cuda1", "cuda:99999999999"}) {
    EXPECT_THAT(ParseDevice(text, kThirdOfFour),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(text), HasSubstr("cuda:0"))))
        << text;
  }
}

TEST(Device, PrintsWhatParses) {
  for (const Device device : {Device{}, Device::Cuda(0), Device::Cuda(7)}) {
    EXPECT_THAT(ParseDevice(device.ToString(), {}), IsOkAndHolds(device));
  }
}

}  // namespace
}  // namespace shardwright
