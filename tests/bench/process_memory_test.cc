#include "shardwright/tests/bench/process_memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "shardwright/core/device/buffer.h"

namespace shardwright::bench {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kBlock = 64 * kMiB;
constexpr uint64_t kNoise = 2 * kMiB;

HostBuffer Touched(uint64_t bytes) {
  HostBuffer buffer = *HostBuffer::Allocate(bytes);
  std::memset(buffer.data(), 1, bytes);
  return buffer;
}

TEST(ProcessMemoryTest, AnonymousBytesFollowWhatIsHeld) {
  const uint64_t before = AnonymousBytes();
  EXPECT_GT(before, 0);
  {
    const HostBuffer untouched = *HostBuffer::Allocate(kBlock);
    EXPECT_NEAR(AnonymousBytes(), before, kNoise) << "what was never written has no pages";
    const HostBuffer touched = Touched(kBlock);
    EXPECT_NEAR(AnonymousBytes(), before + kBlock, kNoise);
  }
  EXPECT_NEAR(AnonymousBytes(), before, kNoise);
}

TEST(ProcessMemoryTest, ThePeakRemembersWhatWasFreed) {
  const uint64_t before = AnonymousBytes();
  const MemoryPeak peak;
  EXPECT_NEAR(peak.AnonymousBytes(), before, kNoise);
  Touched(kBlock);
  EXPECT_NEAR(peak.AnonymousBytes(), before + kBlock, kNoise);
  Touched(kBlock / 2);
  EXPECT_NEAR(peak.AnonymousBytes(), before + kBlock, kNoise) << "a lower peak does not count";
}

TEST(ProcessMemoryTest, APeakFromBeforeIsForgotten) {
  Touched(kBlock);
  const uint64_t before = AnonymousBytes();
  const MemoryPeak peak;
  EXPECT_NEAR(peak.AnonymousBytes(), before, kNoise);
}

}  // namespace
}  // namespace shardwright::bench
