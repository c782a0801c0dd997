// Reads the headers of real files, and of files that were made to be refused. testdata/README.md tells where they come
// from.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "shardwright/core/format/safetensors/header.h"
#include "tests/testing/status_matchers.h"

namespace shardwright::safetensors {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string ReadTestFile(const std::string& name) {
  std::ifstream file("tests/core/format/testdata/" + name + ".safetensors", std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

absl::StatusOr<Header> DecodeFile(const std::string& name) {
  const std::string bytes = ReadTestFile(name);
  return DecodeHeader(bytes, bytes.size());
}

TEST(LibraryFileTest, EveryDTypeIsRead) {
  SW_ASSERT_OK_AND_ASSIGN(const Header header, DecodeFile("library/every_dtype"));
  EXPECT_THAT(header.metadata, ElementsAre(Pair("format", "pt"), Pair("note", "caf\xC3\xA9")));
  std::set<int> dtypes;
  std::set<std::string> names;
  for (const Entry& entry : header.entries) {
    dtypes.insert(static_cast<int>(entry.dtype));
    names.insert(entry.name);
  }
  for (int number = 1; IsKnownDType(number); ++number) EXPECT_EQ(dtypes.count(number), 1u) << number;
  EXPECT_EQ(header.entries.size(), 22u);
  EXPECT_EQ(names.count("uni\xC3\xA9\xF0\x9F\x98\x80\"\\"), 1u);
}

// What the library wrote and we write again, it would read as the same.
TEST(LibraryFileTest, EncodingAgainKeepsEveryEntry) {
  for (const char* name : {"library/every_dtype", "library/transformers_shard", "library/accelerate_model"}) {
    SW_ASSERT_OK_AND_ASSIGN(const Header header, DecodeFile(name));
    SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeHeader(header));
    SW_ASSERT_OK_AND_ASSIGN(const Header again, DecodeHeader(bytes, bytes.size() + header.entries.back().end_bytes));
    EXPECT_EQ(again, header) << name;
  }
}

TEST(LibraryFileTest, SmallFilesOfThreeLibraries) {
  SW_ASSERT_OK_AND_ASSIGN(const Header shard, DecodeFile("library/transformers_shard"));
  EXPECT_EQ(shard.entries, std::vector<Entry>({{"model.layers.0.w", DType::kFloat32, {16, 8}, 0, 512},
                                               {"model.layers.1.w", DType::kFloat32, {16, 8}, 512, 1024}}));
  SW_ASSERT_OK_AND_ASSIGN(const Header model, DecodeFile("library/accelerate_model"));
  EXPECT_EQ(model.entries,
            std::vector<Entry>({{"bias", DType::kFloat32, {3}, 0, 12}, {"weight", DType::kFloat32, {3, 4}, 12, 60}}));
  SW_ASSERT_OK_AND_ASSIGN(const Header none, DecodeFile("library/no_tensors"));
  EXPECT_EQ(none, Header());
}

TEST(LibraryFileTest, FourBitFloatsCountBytes) {
  SW_ASSERT_OK_AND_ASSIGN(const Header header, DecodeFile("library/dtypes"));
  const auto entry = std::find_if(header.entries.begin(), header.entries.end(),
                                  [](const Entry& e) { return e.name == "float4_e2m1fn_x2"; });
  ASSERT_NE(entry, header.entries.end());
  EXPECT_EQ(entry->dtype, DType::kFloat4E2M1x2);
  EXPECT_EQ(entry->shape, (Shape{2, 2}));
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeHeader(header));
  EXPECT_THAT(bytes, HasSubstr("\"dtype\":\"F4\",\"shape\":[2,4]"));
}

TEST(HandMadeFileTest, ValidOnesAreRead) {
  for (const char* name : {"ok", "ok_meta", "ok_tab_pad", "ok_empty_tensor", "ok_scalar", "ok_only_meta",
                           "ok_unaligned", "name_traversal", "name_nul", "name_ctrl", "many_dims"}) {
    EXPECT_THAT(DecodeFile(absl::StrCat("hand_made/", name)), IsOk()) << name;
  }
}

struct Refusal {
  const char* name;
  const char* message;
};

TEST(HandMadeFileTest, InvalidOnesAreDataLoss) {
  const Refusal refusals[] = {
      {"alias", "an overlap"},
      {"dup_key_same", "\"w\" is there twice"},
      {"dup_meta", "is there twice in the metadata"},
      {"empty", "a file of 0 bytes"},
      {"exp_shape", "no 64-bit integer"},
      {"header_len_big", "at most 100000000"},
      {"header_len_huge", "header of 18446744073709551615 bytes"},
      {"header_len_short", "not valid JSON"},
      {"header_len_zero", "begin with '{'"},
      {"hole", "a gap"},
      {"hole_start", "a gap"},
      {"json_array", "begin with '{'"},
      {"json_nan", "not valid JSON"},
      {"json_trailing", "not valid JSON"},
      {"lone_surrogate", "not valid JSON"},
      {"lower_dtype", "unknown element type \"f32\""},
      {"meta_nested", "want a string, got an object"},
      {"meta_nonstr", "want a string, got a number"},
      {"missing_field", "lacks dtype, shape or data_offsets"},
      {"neg_shape", "got a negative number"},
      {"offset_big", "no 64-bit integer"},
      {"offset_past", "the end of the file"},
      {"offset_rev", "data offsets"},
      {"offset_three", "want 2 data offsets, got 3"},
      {"ok_leading_space", "begin with '{'"},
      {"shape_mul_overflow", "overflows"},
      {"shape_overflow_zero", "overflows"},
      {"str_shape", "got a string"},
      {"tiny7", "a file of 7 bytes"},
      {"trailing", "the end of the file"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(DecodeFile(absl::StrCat("hand_made/", refusal.name)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(refusal.message)))
        << refusal.name;
  }
}

TEST(HandMadeFileTest, RowsThatEndWithinAByteAreUnimplemented) {
  EXPECT_THAT(DecodeFile("hand_made/f4_ok"), IsOk());
  EXPECT_THAT(DecodeFile("hand_made/f4_odd"), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("F4")));
}

}  // namespace
}  // namespace shardwright::safetensors
