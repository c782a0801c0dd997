// Boxes of strided, swapped, conjugated and negated pieces against the plainest possible reader.
#include "shardwright/core/format/computed/piece_reader.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include "shardwright/core/format/bytes/range_file.h"
#include "tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;

template <typename T>
std::string AsBytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

TEST(PieceReaderTest, AnyStridesAnyBox) {
  const auto seed = static_cast<uint32_t>(std::random_device()());
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::vector<int32_t> stored(4000);
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<int32_t>(i);
  const std::shared_ptr<const ReadFile> file = MakeMemoryFile(AsBytes(stored));
  for (int round = 0; round < 3000; ++round) {
    Piece piece;
    const size_t rank = random() % 5;
    for (size_t d = 0; d < rank; ++d) {
      piece.box.offset.push_back(random() % 3);
      piece.box.size.push_back(1 + random() % 5);
      piece.stride.push_back(random() % 100);
    }
    piece.first = random() % 2000;
    Box part = piece.box;
    for (size_t d = 0; d < rank; ++d) {
      const auto skip = static_cast<int64_t>(random() % part.size[d]);
      part.offset[d] += skip;
      part.size[d] = 1 + static_cast<int64_t>(random() % (part.size[d] - skip));
    }
    std::vector<int32_t> out(part.elements(), -1);
    ASSERT_THAT(ReadPiece(piece, *file, DType::kInt32, part, part,
                          absl::MakeSpan(reinterpret_cast<char*>(out.data()), out.size() * 4)),
                IsOk());
    for (int64_t i = 0; i < part.elements(); ++i) {
      int64_t at = piece.first;
      int64_t rest = i;
      for (size_t d = rank; d-- > 0;) {
        at += (part.offset[d] - piece.box.offset[d] + rest % part.size[d]) * piece.stride[d];
        rest /= part.size[d];
      }
      ASSERT_EQ(out[i], stored[at]) << part.ToString() << " of " << piece.box.ToString();
    }
  }
}

TEST(PieceReaderTest, WhatIsStoredOtherwiseIsPutRight) {
  const auto read = [](const Piece& piece, DType dtype, std::string bytes) {
    std::string out(bytes.size(), '\0');
    const std::shared_ptr<const ReadFile> file = MakeMemoryFile(std::move(bytes));
    EXPECT_THAT(ReadPiece(piece, *file, dtype, piece.box, piece.box, absl::MakeSpan(out)), IsOk());
    return out;
  };
  const Piece two{.box = Box::Whole({2}), .stride = {1}};
  Piece swapped = two;
  swapped.big_endian = true;
  EXPECT_EQ(read(swapped, DType::kInt16, std::string("\1\2\3\4")), "\2\1\4\3");
  // Complex numbers are swapped by halves, not as a whole.
  EXPECT_EQ(read(swapped, DType::kComplex32, std::string("\1\2\3\4\5\6\7\x8")), "\2\1\4\3\6\5\x8\7");
  Piece negated = two;
  negated.negative = true;
  EXPECT_EQ(read(negated, DType::kFloat32, AsBytes<float>({1.5f, -2.0f})), AsBytes<float>({-1.5f, 2.0f}));
  EXPECT_EQ(read(negated, DType::kInt32, AsBytes<int32_t>({7, -256})), AsBytes<int32_t>({-7, 256}));
  Piece conjugate{.box = Box::Whole({1}), .stride = {1}, .conjugate = true};
  EXPECT_EQ(read(conjugate, DType::kComplex64, AsBytes<float>({1.0f, 2.0f})), AsBytes<float>({1.0f, -2.0f}));
  conjugate.negative = true;
  EXPECT_EQ(read(conjugate, DType::kComplex64, AsBytes<float>({1.0f, 2.0f})), AsBytes<float>({-1.0f, 2.0f}));
}

TEST(PieceReaderTest, ElementsBehindTheEndAreDataLoss) {
  const Piece piece{.box = Box::Whole({4}), .stride = {2}};
  std::string out(16, '\0');
  EXPECT_THAT(
      ReadPiece(piece, *MakeMemoryFile(std::string(20, 'x')), DType::kInt32, piece.box, piece.box, absl::MakeSpan(out)),
      StatusIs(absl::StatusCode::kDataLoss));
}

TEST(PieceTest, OnlyWhatLiesAsWantedIsPlain) {
  const Piece dense{.box = Box::Whole({2, 3}), .stride = {3, 1}};
  EXPECT_TRUE(dense.IsPlain());
  Piece transposed = dense;
  transposed.stride = {1, 2};
  EXPECT_FALSE(transposed.IsPlain());
  Piece single = dense;
  single.box = Box::Whole({1, 3});
  single.stride = {77, 1};
  EXPECT_TRUE(single.IsPlain());
  Piece negated = dense;
  negated.negative = true;
  EXPECT_FALSE(negated.IsPlain());
}

}  // namespace
}  // namespace shardwright
