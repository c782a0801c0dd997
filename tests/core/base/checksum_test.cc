#include "shardwright/core/base/checksum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace shardwright {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Span<const char> Bytes(const std::string& text) {
  return {text.data(), text.size()};
}

std::string RandomBytes(std::mt19937_64& random, size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// One bit at a time, straight from the polynomial: what the library's assembly is held against.
uint32_t SlowCrc(absl::Span<const char> bytes, uint32_t reflected_polynomial) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? reflected_polynomial : 0);
  }
  return ~crc;
}

// RFC 3720, appendix B.4.
TEST(Crc32c, GivesTheStandardVectors) {
  EXPECT_EQ(Crc32c(Bytes("")), 0u);
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xE3069283);
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\0'))), 0x8A9136AA);
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\xFF'))), 0x62A8AB43);
  std::string counting(32, '\0');
  for (int i = 0; i < 32; ++i) counting[i] = static_cast<char>(i);
  EXPECT_EQ(Crc32c(Bytes(counting)), 0x46DD794E);
  std::reverse(counting.begin(), counting.end());
  EXPECT_EQ(Crc32c(Bytes(counting)), 0x113FDB5C);
}

TEST(Crc32, GivesTheStandardVectors) {
  EXPECT_EQ(Crc32(Bytes("")), 0u);
  EXPECT_EQ(Crc32(Bytes("123456789")), 0xCBF43926);
  EXPECT_EQ(Crc32(Bytes("The quick brown fox jumps over the lazy dog")), 0x414FA339);
}

TEST(Crc, AgreesWithTheDefinitionAndContinues) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    const std::string bytes = RandomBytes(random, random() % 3000);
    const absl::Span<const char> all = Bytes(bytes);
    ASSERT_EQ(Crc32c(all), SlowCrc(all, 0x82F63B78)) << bytes.size();
    ASSERT_EQ(Crc32(all), SlowCrc(all, 0xEDB88320)) << bytes.size();
    const size_t cut = random() % (bytes.size() + 1);
    ASSERT_EQ(Crc32c(all.subspan(cut), Crc32c(all.first(cut))), Crc32c(all)) << cut << " of " << bytes.size();
    ASSERT_EQ(Crc32(all.subspan(cut), Crc32(all.first(cut))), Crc32(all)) << cut << " of " << bytes.size();
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::string bytes(1000, 'x');
  const uint32_t before = Crc32c(Bytes(bytes));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    ASSERT_NE(Crc32c(Bytes(bytes)), before) << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
  }
}

// XXH3-128 with seed 0 of the empty input, as the xxHash specification gives it: the persisted hash may never change.
TEST(HashContent, GivesTheKnownValues) {
  EXPECT_EQ(HashContent({}).ToString(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(HashContent(Bytes("123456789")), HashContent(Bytes("123456789")));
  EXPECT_FALSE(HashContent(Bytes("123456789")) == HashContent(Bytes("123456788")));
}

TEST(ContentHash, PrintsLeadingZeros) {
  EXPECT_EQ((ContentHash{.high = 1, .low = 0xAB}).ToString(), "000000000000000100000000000000ab");
}

TEST(ShardHasher, NothingHasNoChunks) {
  ShardHasher hasher;
  EXPECT_EQ(hasher.FinishHash(), HashContent({}));
  EXPECT_THAT(hasher.FinishChunks(), IsEmpty());
}

TEST(ShardHasher, CutsChunksAndLeavesTheLastShort) {
  const std::string bytes(2 * kChecksumChunkBytes + 1, 'a');
  const absl::Span<const char> all = Bytes(bytes);
  ShardHasher hasher;
  hasher.Update(all);
  const uint32_t full = Crc32c(all.first(kChecksumChunkBytes));
  EXPECT_THAT(hasher.FinishChunks(), ElementsAre(full, full, Crc32c(Bytes("a"))));
}

TEST(ShardHasher, AFullLastChunkIsNotFollowedByAnEmptyOne) {
  const std::string bytes(kChecksumChunkBytes, 'a');
  ShardHasher hasher;
  hasher.Update(Bytes(bytes));
  EXPECT_THAT(hasher.FinishChunks(), ElementsAre(Crc32c(Bytes(bytes))));
}

TEST(ShardHasher, DoesNotDependOnHowTheBytesArrive) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20; ++i) {
    const std::string bytes = RandomBytes(random, random() % (5 * kChecksumChunkBytes));
    ShardHasher whole;
    whole.Update(Bytes(bytes));
    ShardHasher pieces;
    for (absl::Span<const char> rest = Bytes(bytes); !rest.empty();) {
      const absl::Span<const char> piece = rest.first(std::min<size_t>(rest.size(), random() % 100'000));
      pieces.Update(piece);
      rest.remove_prefix(piece.size());
    }
    ASSERT_EQ(pieces.FinishHash(), HashContent(Bytes(bytes)));
    ASSERT_EQ(whole.FinishHash(), HashContent(Bytes(bytes)));
    ASSERT_EQ(pieces.FinishChunks(), whole.FinishChunks());
  }
}

TEST(ShardHasher, MovesWithItsState) {
  ShardHasher first;
  first.Update(Bytes("12345"));
  ShardHasher second = std::move(first);
  second.Update(Bytes("6789"));
  EXPECT_EQ(second.FinishHash(), HashContent(Bytes("123456789")));
  EXPECT_THAT(second.FinishChunks(), ElementsAre(0xE3069283));
}

}  // namespace
}  // namespace shardwright
