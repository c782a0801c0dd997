#include "shardwright/core/device/buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

constexpr uint64_t kHuge = 2 << 20;

bool Aligned(const char* data, uint64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

// Whether the page is part of the address space.
bool Mapped(char* page) {
  unsigned char resident;
  return ::mincore(page, 1, &resident) == 0 || errno != ENOMEM;
}

TEST(HostBuffer, IsAlignedAndAllOfItIsUsable) {
  for (const uint64_t bytes : std::vector<uint64_t>{1, 4095, 4096, 4097, kHuge - 1, kHuge, kHuge + 1, 3 * kHuge}) {
    SW_ASSERT_OK_AND_ASSIGN(const HostBuffer buffer, HostBuffer::Allocate(bytes));
    EXPECT_EQ(buffer.size_bytes(), bytes);
    EXPECT_EQ(buffer.span().size(), bytes);
    EXPECT_TRUE(Aligned(buffer.data(), bytes >= kHuge ? kHuge : 4096)) << bytes;
    std::memset(buffer.data(), 0x5A, bytes);
    EXPECT_EQ(buffer.span()[bytes - 1], 0x5A);
  }
}

TEST(HostBuffer, NothingNeedsNoMemory) {
  SW_ASSERT_OK_AND_ASSIGN(const HostBuffer buffer, HostBuffer::Allocate(0));
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_TRUE(buffer.span().empty());
}

TEST(HostBuffer, RefusesWhatTheSystemHasNot) {
  EXPECT_THAT(HostBuffer::Allocate(uint64_t{1} << 60),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1.00 EiB")));
  EXPECT_THAT(HostBuffer::Allocate(UINT64_MAX), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(HostBuffer, GivesItsMemoryBack) {
  for (const uint64_t bytes : {uint64_t{4096}, 3 * kHuge}) {
    char* data = nullptr;
    {
      SW_ASSERT_OK_AND_ASSIGN(const HostBuffer buffer, HostBuffer::Allocate(bytes));
      data = buffer.data();
      EXPECT_TRUE(Mapped(data));
      EXPECT_TRUE(Mapped(data + bytes - 4096));
    }
    EXPECT_FALSE(Mapped(data));
    EXPECT_FALSE(Mapped(data + bytes - 4096));
  }
}

TEST(HostBuffer, MovingHandsTheMemoryOnAndFreesTheOld) {
  SW_ASSERT_OK_AND_ASSIGN(HostBuffer first, HostBuffer::Allocate(4096));
  SW_ASSERT_OK_AND_ASSIGN(HostBuffer second, HostBuffer::Allocate(3 * kHuge));
  char* const kept = first.data();
  char* const freed = second.data();
  second = std::move(first);
  EXPECT_EQ(second.data(), kept);
  EXPECT_EQ(second.size_bytes(), 4096u);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT: a moved-from buffer is empty by contract
  EXPECT_EQ(first.size_bytes(), 0u);
  EXPECT_FALSE(Mapped(freed));
  const HostBuffer third(std::move(second));
  EXPECT_EQ(third.data(), kept);
}

}  // namespace
}  // namespace shardwright
