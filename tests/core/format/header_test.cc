#include "shardwright/core/format/safetensors/header.h"

#include <cstdio>
#include <limits>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/format/safetensors/json_text.h"
#include "shardwright/core/storage/memory.h"
#include "tests/testing/status_matchers.h"

namespace shardwright::safetensors {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

Header SampleHeader() {
  Header header;
  header.metadata = {{"format", "pt"}, {"note", "a \"quoted\" gr\xC3\xBC\xC3\x9F\n"}};
  header.entries = {{"b\x01\x7F\\", DType::kInt64, {}, 0, 8},
                    {"empty", DType::kFloat32, {3, 0}, 8, 8},
                    {"a", DType::kBFloat16, {3, 5}, 8, 38}};
  return header;
}

// A file's first bytes with that JSON.
std::string WithPrefix(const std::string& json) {
  std::string prefix;
  for (int i = 0; i < 8; ++i) prefix.push_back(static_cast<char>(json.size() >> (8 * i)));
  return prefix + json;
}

absl::StatusOr<Header> Decode(const std::string& json, uint64_t data_bytes) {
  return DecodeHeader(WithPrefix(json), 8 + json.size() + data_bytes);
}

TEST(SafetensorsHeaderTest, RoundTrips) {
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeHeader(SampleHeader()));
  EXPECT_EQ(bytes.size() % 64, 0u);
  SW_ASSERT_OK_AND_ASSIGN(const Header decoded, DecodeHeader(bytes, bytes.size() + 38));
  EXPECT_EQ(decoded, SampleHeader());
}

TEST(SafetensorsHeaderTest, TheTextIsStable) {
  Header header;
  header.metadata = {{"format", "pt"}};
  header.entries = {{"w", DType::kFloat32, {2, 3}, 0, 24}};
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeHeader(header));
  const std::string json =
      "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}";
  EXPECT_EQ(bytes, WithPrefix(json + std::string(128 - 8 - json.size(), ' ')));
}

TEST(SafetensorsHeaderTest, AnyAlignment) {
  for (uint64_t alignment : {1, 8, 64, 4096}) {
    SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeHeader(SampleHeader(), alignment));
    EXPECT_EQ(bytes.size() % alignment, 0u);
    EXPECT_THAT(DecodeHeader(bytes, bytes.size() + 38), IsOk());
  }
}

TEST(SafetensorsHeaderTest, EmptyHeaderRoundTrips) {
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeHeader(Header()));
  SW_ASSERT_OK_AND_ASSIGN(const Header decoded, DecodeHeader(bytes, bytes.size()));
  EXPECT_EQ(decoded, Header());
}

TEST(SafetensorsHeaderTest, RefusesToWriteWhatItWouldNotRead) {
  const auto spoiled = [](auto spoil) {
    Header header = SampleHeader();
    spoil(header);
    return EncodeHeader(header);
  };
  const auto is_invalid = [](const char* part) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
  };
  EXPECT_THAT(spoiled([](Header& h) { h.entries[1].name = "a"; }), is_invalid("\"a\": the name is taken"));
  EXPECT_THAT(spoiled([](Header& h) { h.entries[1].name = "__metadata__"; }), is_invalid("the name is taken"));
  EXPECT_THAT(spoiled([](Header& h) { h.entries[1].name = "\xff"; }), is_invalid("not UTF-8"));
  EXPECT_THAT(spoiled([](Header& h) { h.metadata["k"] = "\xff"; }), is_invalid("not UTF-8"));
  EXPECT_THAT(spoiled([](Header& h) { h.entries[0].dtype = DType::kInvalid; }), is_invalid("no element type"));
  EXPECT_THAT(spoiled([](Header& h) { h.entries[2].end_bytes = 40; }), is_invalid("want 30 bytes"));
  EXPECT_THAT(spoiled([](Header& h) { std::swap(h.entries[0], h.entries[2]); }), is_invalid("a gap"));
  EXPECT_THAT(spoiled([](Header& h) { h.entries.erase(h.entries.begin()); }), is_invalid("a gap"));
}

TEST(SafetensorsHeaderTest, RefusesAHeaderOverTheCap) {
  Header header;
  header.metadata["filler"] = std::string(100'000'000, 'x');
  EXPECT_THAT(EncodeHeader(header), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 100000000")));
}

TEST(SafetensorsHeaderTest, EveryTruncationIsDataLoss) {
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeHeader(SampleHeader()));
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_THAT(DecodeHeader(bytes.substr(0, length), bytes.size() + 38), StatusIs(absl::StatusCode::kDataLoss));
    ASSERT_THAT(DecodeHeader(bytes.substr(0, length), length), StatusIs(absl::StatusCode::kDataLoss));
  }
  for (uint64_t data_bytes : {0, 37, 39}) {
    EXPECT_THAT(DecodeHeader(bytes, bytes.size() + data_bytes), StatusIs(absl::StatusCode::kDataLoss));
  }
}

// A header has no checksum of its own (the manifest has it): what is left is that nothing crashes, and that what is
// accepted tiles the file.
TEST(SafetensorsHeaderTest, AlteredBytesNeverCrash) {
  const uint64_t seed = std::random_device()();
  std::printf("seed: %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  SW_ASSERT_OK_AND_ASSIGN(const std::string good, EncodeHeader(SampleHeader()));
  for (size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(value);
      if (value % 4 == 3) bytes[random() % bytes.size()] = static_cast<char>(random());
      const absl::StatusOr<Header> header = DecodeHeader(bytes, bytes.size() + 38);
      if (!header.ok()) {
        ASSERT_THAT(header, AnyOf(StatusIs(absl::StatusCode::kDataLoss), StatusIs(absl::StatusCode::kUnimplemented)));
        continue;
      }
      ASSERT_EQ(header->entries.empty() ? 38 : header->entries.back().end_bytes, 38u);
    }
  }
}

TEST(SafetensorsHeaderTest, UnknownFieldsOfAnEntryArePassedOver) {
  SW_ASSERT_OK_AND_ASSIGN(
      const Header header,
      Decode(
          R"({"w":{"x":{"dtype":[null,-1,2.5,{"shape":true}]},"dtype":"U8","y":[[]],"shape":[3],"z":"s","data_offsets":[0,3],"n":null}})",
          3));
  EXPECT_EQ(header.entries, std::vector<Entry>({{"w", DType::kUInt8, {3}, 0, 3}}));
}

TEST(SafetensorsHeaderTest, NestingIsBounded) {
  const std::string deep(100000, '[');
  EXPECT_THAT(Decode("{\"w\":{\"x\":" + deep, 0), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("nested too deep")));
  const std::string closed = std::string(120, '[') + std::string(120, ']');
  EXPECT_THAT(Decode("{\"w\":{\"x\":" + closed + R"(,"dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1), IsOk());
}

struct BadJson {
  const char* json;
  const char* message;
};

TEST(SafetensorsHeaderTest, WrongJsonIsDataLossThatSaysWhere) {
  const BadJson cases[] = {
      {"", "begin with '{'"},
      {" {}", "begin with '{'"},
      {"\xEF\xBB\xBF{}", "begin with '{'"},
      {"{} x", "not valid JSON at byte"},
      {"{}{}", "not valid JSON at byte"},
      {"{\"w\":1}", "\"w\" is no tensor: want an object, got a number"},
      {"{\"w\":[]}", "\"w\" is no tensor: want an object, got an array"},
      {"{\"w\":null}", "got null"},
      {"{\"w\":{}}", "tensor \"w\" lacks"},
      {R"({"w":{"dtype":"U8","shape":[1]}})", "tensor \"w\" lacks"},
      {R"({"w":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", "\"dtype\" of tensor \"w\": got a number"},
      {R"({"w":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", "\"shape\" of tensor \"w\": got a number"},
      {R"({"w":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "\"shape\" of tensor \"w\": got an array"},
      {R"({"w":{"dtype":"U8","shape":[null],"data_offsets":[0,1]}})", "\"shape\" of tensor \"w\": got null"},
      {R"({"w":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}})", "got a negative number"},
      {R"({"w":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "got a number that is no 64-bit integer"},
      {R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "want 2 data offsets, got 1"},
      {R"({"w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "\"dtype\" is there twice in tensor \"w\""},
      {R"({"__metadata__":{"a":1}})", "\"a\" in the metadata: want a string, got a number"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "\"a\" is there twice in the metadata"},
      {R"({"__metadata__":{},"__metadata__":{}})", "is there twice"},
      {R"({"__metadata__":"x"})", "got a string"},
      {R"({"w":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})", "overflows"},
      {R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551615,3]}})", "want 4 bytes"},
      {R"({"w\u001b":{"dtype":"U7","shape":[1],"data_offsets":[0,1]}})",
       "tensor \"w\\x1b\": unknown element type \"U7\""},
  };
  for (const BadJson& bad : cases) {
    EXPECT_THAT(Decode(bad.json, 1), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(bad.message))) << bad.json;
  }
  EXPECT_THAT(Decode(std::string("{}\0 ", 4), 0), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("NUL")));
  EXPECT_THAT(Decode("{\"__metadata__\":null}", 0), IsOk());
}

TEST(SafetensorsHeaderTest, TypesThatWeLackAreNamed) {
  EXPECT_THAT(Decode(R"({"w":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3),
              StatusIs(absl::StatusCode::kUnimplemented, AllOf(HasSubstr("\"w\""), HasSubstr("F6_E2M3"))));
}

TEST(SafetensorsHeaderTest, ReadHeaderReadsNoData) {
  const std::unique_ptr<Storage> storage = MakeMemoryStorage();
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeHeader(SampleHeader()));
  ASSERT_THAT(WriteWholeFile(*storage, "m.safetensors", bytes + std::string(38, 'd')), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->OpenRead("m.safetensors"));
  SW_ASSERT_OK_AND_ASSIGN(const OpenedHeader opened, ReadHeader(*file, "m.safetensors"));
  EXPECT_EQ(opened.header, SampleHeader());
  EXPECT_EQ(opened.data_begin_bytes, bytes.size());
  EXPECT_EQ(storage->counters().bytes_read, bytes.size());
}

TEST(SafetensorsHeaderTest, ReadHeaderNamesTheFile) {
  const std::unique_ptr<Storage> storage = MakeMemoryStorage();
  for (const std::string& bytes : {std::string(), std::string(7, '\0'), std::string(8, '\xFF'), WithPrefix("[]")}) {
    const std::string path = absl::StrCat(bytes.size(), ".safetensors");
    ASSERT_THAT(WriteWholeFile(*storage, path, bytes), IsOk());
    SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->OpenRead(path));
    EXPECT_THAT(ReadHeader(*file, path),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("reading the header of " + path)));
  }
}

TEST(JsonTextTest, Utf8) {
  for (const char* good :
       {"", "a", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsValidUtf8(good)) << absl::CHexEscape(good);
  }
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2z", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE1\x80",
                          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "ab\xE1\x80z"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << absl::CHexEscape(bad);
  }
  EXPECT_TRUE(IsValidUtf8(absl::string_view("\0", 1)));
}

}  // namespace
}  // namespace shardwright::safetensors
