// cuda.h with --config=cuda, on a real device; where there is none it skips what needs one.
#include "shardwright/core/device/cuda.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CudaWithoutDevice, SaysThatThereIsNone) {
  if (CudaDeviceCount() > 0) GTEST_SKIP() << "this machine has CUDA devices";
  const auto refusal = StatusIs(absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(SetCudaDevice(0), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cuda:0 of 0 devices")));
  EXPECT_THAT(AllocatePinned(4096), refusal);
  EXPECT_THAT(MakeCopyStream(0), refusal);
}

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (CudaDeviceCount() == 0) GTEST_SKIP() << "no CUDA device on this machine";
    ASSERT_THAT(SetCudaDevice(0), IsOk());
    ASSERT_EQ(cudaMalloc(&device_, kBytes), cudaSuccess);
  }
  void TearDown() override { cudaFree(device_); }

  static constexpr uint64_t kBytes = (64 << 20) + 3;
  void* device_ = nullptr;
};

TEST_F(CudaTest, ADeviceThatIsNotThereIsNamed) {
  const int32_t count = CudaDeviceCount();
  EXPECT_THAT(SetCudaDevice(count), StatusIs(absl::StatusCode::kFailedPrecondition,
                                             AllOf(HasSubstr("cuda:"), HasSubstr(" of "), HasSubstr("devices"))));
  EXPECT_THAT(MakeCopyStream(count), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(CudaTest, PinnedMemoryIsPinnedAndMoves) {
  SW_ASSERT_OK_AND_ASSIGN(HostBuffer buffer, AllocatePinned(kBytes));
  EXPECT_EQ(buffer.size_bytes(), kBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0u);
  const HostBuffer moved = std::move(buffer);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, moved.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  SW_ASSERT_OK_AND_ASSIGN(const HostBuffer none, AllocatePinned(0));
  EXPECT_EQ(none.data(), nullptr);
}

TEST_F(CudaTest, MorePinnedMemoryThanThereIsIsRefused) {
  EXPECT_THAT(AllocatePinned(uint64_t{1} << 60).status().message(), HasSubstr("1.00 EiB"));
}

TEST_F(CudaTest, CopiesBothWays) {
  SW_ASSERT_OK_AND_ASSIGN(const HostBuffer sent, AllocatePinned(kBytes));
  SW_ASSERT_OK_AND_ASSIGN(const HostBuffer received, AllocatePinned(kBytes));
  for (uint64_t i = 0; i < kBytes; ++i) sent.data()[i] = static_cast<char>(i * 2654435761u >> 24);
  std::memset(received.data(), 0, kBytes);
  SW_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CopyStream> copies, MakeCopyStream(0));
  EXPECT_THAT(copies->CopyToDevice(sent.data(), device_, kBytes), IsOk());
  EXPECT_THAT(copies->CopyToHost(device_, received.data(), kBytes), IsOk());
  EXPECT_THAT(copies->Synchronize(), IsOk());
  EXPECT_EQ(std::memcmp(sent.data(), received.data(), kBytes), 0);
}

TEST_F(CudaTest, CopiesWaitForTheStreamThatFillsTheMemory) {
  SW_ASSERT_OK_AND_ASSIGN(const HostBuffer received, AllocatePinned(kBytes));
  SW_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CopyStream> copies, MakeCopyStream(0));
  cudaStream_t compute;
  ASSERT_EQ(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), cudaSuccess);
  for (int value = 0; value < 200; ++value) ASSERT_EQ(cudaMemsetAsync(device_, value, kBytes, compute), cudaSuccess);
  EXPECT_THAT(copies->WaitFor(compute), IsOk());
  EXPECT_THAT(copies->CopyToHost(device_, received.data(), kBytes), IsOk());
  EXPECT_THAT(copies->Synchronize(), IsOk());
  EXPECT_TRUE(received.span() == std::string(kBytes, static_cast<char>(199)));
  EXPECT_THAT(copies->WaitFor(nullptr), IsOk());
  EXPECT_EQ(cudaStreamDestroy(compute), cudaSuccess);
}

TEST_F(CudaTest, AWrongAddressIsAnError) {
  SW_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CopyStream> copies, MakeCopyStream(0));
  SW_ASSERT_OK_AND_ASSIGN(const HostBuffer host, AllocatePinned(4096));
  EXPECT_THAT(copies->CopyToHost(nullptr, host.data(), 4096),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("copying 4096 bytes of cuda:0 to the host")));
}

}  // namespace
}  // namespace shardwright
