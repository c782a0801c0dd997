#include "shardwright/core/module/tensor_memory.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

namespace shardwright {
namespace {

using Afterwards = PooledTensorMemory::Afterwards;

constexpr int64_t kLarge = 1 << 20;
constexpr int64_t kSmall = 1 << 10;

PagePool::Counters Count() {
  return TensorPages().counters();
}

at::Tensor Bytes(int64_t count) {
  return at::empty({count}, at::kByte);
}

class TensorMemoryTest : public ::testing::Test {
 protected:
  TensorMemoryTest() { TensorPages().ReturnKept(); }
  ~TensorMemoryTest() override { TensorPages().ReturnKept(); }
  const uint64_t before = Count().in_use_bytes;  // by other tests' tensors, if they live on
};

TEST_F(TensorMemoryTest, LargeTensorsInsideComeFromThePool) {
  const PooledTensorMemory pooled(Afterwards::kReturn);
  const at::Tensor small = Bytes(kSmall);
  EXPECT_EQ(Count().in_use_bytes, before);
  const at::Tensor large = Bytes(kLarge);
  EXPECT_EQ(Count().in_use_bytes, before + kLarge);
}

TEST_F(TensorMemoryTest, TensorsOutsideDoNot) {
  { const PooledTensorMemory pooled(Afterwards::kReturn); }
  const at::Tensor large = Bytes(kLarge);
  EXPECT_EQ(Count().in_use_bytes, before);
}

TEST_F(TensorMemoryTest, WhatIsFreedInsideServesTheNext) {
  const PooledTensorMemory pooled(Afterwards::kReturn);
  at::Tensor tensor = Bytes(kLarge).fill_(7);
  const void* data = tensor.const_data_ptr();
  tensor.reset();
  tensor = at::zeros({kLarge / 4}, at::kFloat);
  EXPECT_EQ(tensor.const_data_ptr(), data);
  EXPECT_EQ(tensor.sum().item<float>(), 0);
}

TEST_F(TensorMemoryTest, AfterwardsItIsReturnedOrKept) {
  for (const Afterwards afterwards : {Afterwards::kReturn, Afterwards::kKeep}) {
    {
      const PooledTensorMemory pooled(afterwards);
      Bytes(kLarge);
    }
    EXPECT_EQ(Count().kept_bytes, afterwards == Afterwards::kKeep ? kLarge : 0);
  }
}

TEST_F(TensorMemoryTest, TensorsOutliveTheScopeTheyCameFrom) {
  at::Tensor tensor;
  {
    const PooledTensorMemory pooled(Afterwards::kReturn);
    tensor = at::zeros({kLarge}, at::kByte);
  }
  tensor.fill_(3);
  EXPECT_EQ(tensor.sum().item<int64_t>(), 3 * kLarge);
  EXPECT_EQ(Count().in_use_bytes, before + kLarge);
  tensor.reset();
  EXPECT_EQ(Count().in_use_bytes, before);
  EXPECT_EQ(Count().kept_bytes, 0) << "nobody keeps outside";
}

TEST_F(TensorMemoryTest, TensorsFromBeforeAreFreedInside) {
  at::Tensor tensor = Bytes(kLarge);
  const PooledTensorMemory pooled(Afterwards::kReturn);
  tensor.reset();
  EXPECT_EQ(Count().kept_bytes, 0);
}

TEST_F(TensorMemoryTest, RawMemoryOfEitherKindIsFreed) {
  const PooledTensorMemory pooled(Afterwards::kReturn);
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  void* large = allocator.raw_allocate(kLarge);
  void* small = allocator.raw_allocate(kSmall);
  EXPECT_EQ(Count().in_use_bytes, before + kLarge);
  allocator.raw_deallocate(small);
  allocator.raw_deallocate(large);
  EXPECT_EQ(Count().in_use_bytes, before);
}

}  // namespace
}  // namespace shardwright
