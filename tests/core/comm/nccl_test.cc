// NCCL on real devices; where there are none it skips. nccl_conformance_test tests the same code without them.
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/comm/c10d_store.h"
#include "shardwright/core/comm/nccl_transport.h"
#include "shardwright/core/comm/transport.h"
#include "shardwright/core/device/cuda.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::testing::Each;

constexpr absl::Duration kTimeout = absl::Minutes(2);

// Floats on the thread's device.
class DeviceFloats {
 public:
  explicit DeviceFloats(const std::vector<float>& values) : count_(values.size()) {
    EXPECT_EQ(cudaMalloc(&data_, bytes()), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceFloats() { cudaFree(data_); }

  void* data() const { return data_; }
  size_t bytes() const { return count_ * sizeof(float); }
  std::vector<float> Read() const {
    std::vector<float> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  void* data_ = nullptr;
  size_t count_;
};

// This rank's values in its piece of all, zeros elsewhere.
std::vector<float> InPlace(int32_t rank, const std::vector<int64_t>& counts) {
  std::vector<float> values;
  for (int32_t owner = 0; owner < static_cast<int32_t>(counts.size()); ++owner) {
    values.insert(values.end(), counts[owner], owner == rank ? static_cast<float>(owner + 1) : 0.0f);
  }
  return values;
}

absl::Status Await(const Transfers& transfers) {
  for (const auto& transfer : transfers) {
    SW_RETURN_IF_ERROR(transfer->WaitUntil(absl::Now() + kTimeout).value_or(absl::DeadlineExceededError("waiting")));
  }
  return absl::OkStatus();
}

// What one rank of `size` sees of a gather and of a sum of all ranks' gathered values.
void GatherAndSum(Transport& transport, int32_t rank, const std::vector<int64_t>& counts) {
  std::vector<uint64_t> bytes;
  for (int64_t count : counts) bytes.push_back(static_cast<uint64_t>(count) * sizeof(float));
  const DeviceFloats values(InPlace(rank, counts));
  Transfers transfers;
  // Both in flight: the second sees what the first has gathered.
  ASSERT_THAT(transport.StartAllGather(values.data(), bytes, &transfers), IsOk());
  ASSERT_THAT(transport.StartReduceScatter(values.data(), counts, DType::kFloat32, ReduceOp::kSum, &transfers), IsOk());
  ASSERT_THAT(Await(transfers), IsOk());
  const std::vector<float> got = values.Read();
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  for (int64_t i = begin; i < begin + counts[rank]; ++i) {
    ASSERT_EQ(got[i], static_cast<float>((rank + 1) * static_cast<int32_t>(counts.size()))) << i;
  }
}

class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (CudaDeviceCount() == 0) GTEST_SKIP() << "no CUDA device on this machine";
  }

  // Runs fn on `size` ranks, each with a device of its own.
  static void RunRanks(int32_t size, const std::function<void(Transport& transport, int32_t rank)>& fn) {
    SW_ASSERT_OK_AND_ASSIGN(const auto server, HostStore(size));
    std::vector<absl::Status> statuses(size);
    const auto run = [&](int32_t rank) -> absl::Status {
      SW_RETURN_IF_ERROR(SetCudaDevice(rank));
      SW_ASSIGN_OR_RETURN(auto connection, OpenTcpStore({.host = "127.0.0.1",
                                                         .port = server->port(),
                                                         .serve = false,
                                                         .listen_fd = std::nullopt,
                                                         .timeout = kTimeout}));
      C10dStore store(std::move(connection));
      SW_ASSIGN_OR_RETURN(const auto transport,
                          ConnectNccl({.rank = rank, .size = size, .device_index = rank, .timeout = kTimeout}, store));
      fn(*transport, rank);
      return absl::OkStatus();
    };
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { statuses[rank] = run(rank); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(statuses, Each(IsOk()));
  }
};

TEST_F(NcclTest, OneRank) {
  RunRanks(1, [](Transport& transport, int32_t rank) {
    GatherAndSum(transport, rank, {100000});
    const DeviceFloats values({1, 2, 3});
    Transfers transfers;
    EXPECT_THAT(transport.StartBroadcast(values.data(), values.bytes(), 0, &transfers), IsOk());
    EXPECT_THAT(transport.StartAllReduce(values.data(), 3, DType::kFloat32, ReduceOp::kMax, &transfers), IsOk());
    EXPECT_THAT(transport.StartAllReduce(values.data(), 3, DType::kBFloat16, ReduceOp::kSum, &transfers), IsOk());
    EXPECT_THAT(Await(transfers), IsOk());
    EXPECT_EQ(values.Read(), (std::vector<float>{1, 2, 3}));
  });
}

TEST_F(NcclTest, TransfersFollowTheCallersStream) {
  RunRanks(1, [](Transport& transport, int32_t) {
    const DeviceFloats from(std::vector<float>(1 << 24, 7.0f)), to(std::vector<float>(1 << 24));
    const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(false, 0);
    c10::cuda::setCurrentCUDAStream(stream);
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(cudaMemcpyAsync(to.data(), from.data(), to.bytes(), cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    }
    Transfers transfers;
    ASSERT_THAT(transport.StartAllReduce(to.data(), 1 << 24, DType::kFloat32, ReduceOp::kSum, &transfers), IsOk());
    ASSERT_THAT(Await(transfers), IsOk());
    EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess) << "the transfer was done before the copies that it follows";
    EXPECT_EQ(to.Read().back(), 7.0f);
    c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream(0));
  });
}

TEST_F(NcclTest, ABrokenTransportRefusesTransfers) {
  RunRanks(1, [](Transport& transport, int32_t) {
    transport.Break();
    transport.Break();
    const DeviceFloats values({1});
    Transfers transfers;
    EXPECT_THAT(transport.StartAllReduce(values.data(), 1, DType::kFloat32, ReduceOp::kSum, &transfers),
                testing::StatusIs(absl::StatusCode::kUnavailable));
    for (const auto& transfer : transfers) transfer->Settle();
  });
}

TEST_F(NcclTest, OneRankPerDevice) {
  const int32_t size = std::min(CudaDeviceCount(), 4);
  if (size < 2) GTEST_SKIP() << "one CUDA device on this machine, two are needed";
  RunRanks(size, [&](Transport& transport, int32_t rank) {
    std::vector<int64_t> uneven(size);
    for (int32_t owner = 0; owner < size; ++owner) uneven[owner] = owner == 1 ? 0 : 1000 * owner + 3;
    GatherAndSum(transport, rank, std::vector<int64_t>(size, 100000));
    GatherAndSum(transport, rank, uneven);
  });
}

}  // namespace
}  // namespace shardwright
