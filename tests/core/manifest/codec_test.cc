#include "shardwright/core/manifest/codec.h"

#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/escaping.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/manifest/frame.h"
#include "shardwright/tests/core/manifest/sample_manifest.h"
#include "tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::ManyTensors;
using ::shardwright::testing::SampleManifestData;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string EncodeData(const ManifestData& data) {
  const auto manifest = Manifest::Create(data);
  EXPECT_THAT(manifest, IsOk());
  const absl::StatusOr<std::string> bytes = EncodeManifest(**manifest);
  EXPECT_THAT(bytes, IsOk());
  return *bytes;
}

// A whole and undamaged frame around any message.
std::string Framed(const std::string& message, FrameVersions versions = {1, 1}) {
  std::string frame = std::string(kFrameHeadBytes, '\0') + message;
  FillFrameHead(versions, absl::MakeSpan(frame));
  return frame;
}

std::string MessageOf(const std::string& frame) {
  return frame.substr(kFrameHeadBytes);
}

TEST(CodecTest, OnlyNativeManifestsAreEncoded) {
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, Manifest::Create(SampleManifestData(), ManifestKind::kForeign));
  EXPECT_THAT(EncodeManifest(*manifest), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("foreign")));
}

TEST(CodecTest, RoundTripsEveryField) {
  const ManifestData data = SampleManifestData();
  SW_ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeManifest(EncodeData(data)));
  EXPECT_EQ(decoded->data(), data);
}

TEST(CodecTest, RoundTripsTheEmptyManifest) {
  SW_ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeManifest(EncodeData(ManifestData())));
  EXPECT_EQ(decoded->data(), ManifestData());
}

TEST(CodecTest, RoundTripsExtremes) {
  ManifestData data = SampleManifestData();
  data.layout = SaveLayout::kSingleFile;
  data.progress = {std::numeric_limits<int64_t>::max(), 0, std::numeric_limits<int64_t>::max()};
  data.load_order.window_bytes = std::numeric_limits<uint64_t>::max();
  data.extras["min"] = std::numeric_limits<int64_t>::min();
  data.extras["max"] = std::numeric_limits<int64_t>::max();
  data.extras["inf"] = -std::numeric_limits<double>::infinity();
  data.extras[std::string("\0\n\xff", 3)] = std::string("not UTF-8: \xC3\x28");
  data.extras["empty list"] = Value::List{};
  data.extras["false"] = false;
  Value deep = 1;
  for (int i = 1; i < kMaxValueDepth; ++i) deep = i % 2 == 0 ? Value(Value::List{deep}) : Value(Value::Map{{"", deep}});
  data.extras["deep"] = deep;
  testing::TensorOf(data, "wq").meta.name = "\xff";
  SW_ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeManifest(EncodeData(data)));
  EXPECT_EQ(decoded->data(), data);
}

TEST(CodecTest, MapsAtTheDepthLimit) {
  ManifestData data;
  Value deep = 1;
  for (int i = 1; i < kMaxValueDepth; ++i) deep = Value::Map{{"k", deep}};
  data.extras["deep"] = deep;
  SW_ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeManifest(EncodeData(data)));
  EXPECT_EQ(decoded->data(), data);
}

TEST(CodecTest, KeepsTheBitsOfNaN) {
  ManifestData data;
  uint64_t bits = 0x7FF4DEADBEEF0001;
  double nan;
  std::memcpy(&nan, &bits, sizeof(nan));
  data.extras["nan"] = nan;
  SW_ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeManifest(EncodeData(data)));
  const double* got = decoded->data().extras.at("nan").get_if<double>();
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(std::memcmp(got, &bits, sizeof(bits)), 0);
}

TEST(CodecTest, EqualDataGiveEqualBytes) {
  ManifestData shuffled = SampleManifestData();
  std::swap(shuffled.tensors.front(), shuffled.tensors.back());
  EXPECT_EQ(EncodeData(SampleManifestData()), EncodeData(shuffled));
  SW_ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeManifest(EncodeData(shuffled)));
  SW_ASSERT_OK_AND_ASSIGN(const std::string again, EncodeManifest(*decoded));
  EXPECT_EQ(again, EncodeData(shuffled));
}

TEST(CodecTest, TheHeadIsAsDocumented) {
  const std::string bytes = EncodeData(ManifestData());
  EXPECT_EQ(bytes.substr(0, 16), std::string("\x89SWCK\r\n\x1A\x01\0\0\0\x01\0\0\0", 16));
  EXPECT_EQ(bytes[16] + kFrameHeadBytes, bytes.size());
  EXPECT_EQ(bytes.substr(17, 11), std::string(11, '\0'));
  const uint32_t crc = Crc32c(absl::MakeSpan(bytes.data(), 28));
  EXPECT_EQ(bytes.substr(28, 4), std::string(reinterpret_cast<const char*>(&crc), 4));
}

TEST(CodecTest, EveryTruncationIsDataLoss) {
  const std::string bytes = EncodeData(SampleManifestData());
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_THAT(DecodeManifest(bytes.substr(0, length)), StatusIs(absl::StatusCode::kDataLoss)) << length;
  }
  EXPECT_THAT(DecodeManifest(bytes + '\0'), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(CodecTest, EveryFlippedBitIsDataLoss) {
  const std::string good = EncodeData(SampleManifestData());
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      ASSERT_THAT(DecodeManifest(bytes), StatusIs(absl::StatusCode::kDataLoss)) << at << ", bit " << bit;
    }
  }
}

TEST(CodecTest, TheMessageOfAnotherManifestIsDataLoss) {
  ManifestData other = SampleManifestData();
  other.progress.step += 1;  // an equally long message
  const std::string bytes = EncodeData(SampleManifestData()), others = EncodeData(other);
  ASSERT_EQ(bytes.size(), others.size());
  EXPECT_THAT(DecodeManifest(bytes.substr(0, kFrameHeadBytes) + MessageOf(others)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("message")));
}

TEST(CodecTest, ANewerMinimumReaderIsNamed) {
  EXPECT_THAT(DecodeManifest(Framed("whatever comes", {7, 5})),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("version 7"), HasSubstr("version 5"), HasSubstr("reads version 1"))));
}

TEST(CodecTest, ANewerVersionThatWeMayReadIsReadAndNotWritten) {
  const std::string unknown_field = "\xBA\x3E\x03xyz";  // field 999
  SW_ASSERT_OK_AND_ASSIGN(const auto decoded,
                          DecodeManifest(Framed(MessageOf(EncodeData(SampleManifestData())) + unknown_field, {2, 1})));
  EXPECT_EQ(decoded->data().format_version, 2u);
  EXPECT_EQ(decoded->data().tensors, SampleManifestData().tensors);
  EXPECT_THAT(EncodeManifest(*decoded), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version 2")));
}

TEST(CodecTest, SenselessVersionsAreDataLoss) {
  const std::string message = MessageOf(EncodeData(ManifestData()));
  EXPECT_THAT(DecodeManifest(Framed(message, {0, 0})), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeManifest(Framed(message, {1, 0})), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeManifest(Framed(message, {0, 1})), StatusIs(absl::StatusCode::kDataLoss));
}

// Messages that a writer of ours never makes, with good checksums.
TEST(CodecTest, HostileMessagesAreDataLoss) {
  const std::string message = MessageOf(EncodeData(SampleManifestData()));
  const std::string bad[] = {
      "\x3A\x00",                              // a tensor of nothing
      "\x3A\xFF\xFF\xFF\xFF\x07",              // a tensor longer than the message
      "\x3A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",  // and a length of more than 32 bits
      "\x3A\x02\x0A\x05",                      // a name longer than its tensor
      "\x42\x04\x0A\x02\x0A\x00",              // an extra without a value
      "\x42\x06\x0A\x04\x0A\x00\x12\x00",      // and with a value of no kind
      "\x3B",                                  // a group that does not end
      "\x07",                                  // a wire type that does not exist
  };
  for (const std::string& tail : bad) {
    EXPECT_THAT(DecodeManifest(Framed(message + tail)), StatusIs(absl::StatusCode::kDataLoss))
        << absl::BytesToHexString(tail);
  }
  EXPECT_THAT(DecodeManifest(Framed("")), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(CodecTest, ARepeatedKeyIsDataLoss) {
  const std::string entry("\x0A\x07\x0A\x01k\x12\x02\x10\x01", 9);
  const std::string extras = "\x42" + std::string(1, '\x12') + entry + entry;
  const std::string message = MessageOf(EncodeData(ManifestData()));
  EXPECT_THAT(DecodeManifest(Framed(message + extras)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("\"k\" is there twice")));
}

TEST(CodecTest, EndlessNestingIsDataLoss) {
  // Lists in lists, built from the inside: each is Value{list_value = ValueList{values = [inner]}}.
  const auto wrap = [](char tag, const std::string& inner) {
    std::string length;
    for (size_t n = inner.size(); true; n >>= 7) {
      length.push_back(static_cast<char>(n < 128 ? n : (n & 127) | 128));
      if (n < 128) break;
    }
    return tag + length + inner;
  };
  std::string value = "\x10\x01";
  for (int i = 0; i < 20000; ++i) value = wrap('\x3A', wrap('\x0A', value));
  const std::string extras = wrap('\x42', wrap('\x0A', wrap('\x0A', "k") + wrap('\x12', value)));
  EXPECT_THAT(DecodeManifest(Framed(MessageOf(EncodeData(ManifestData())) + extras)),
              StatusIs(absl::StatusCode::kDataLoss));
}

// Damage behind good checksums: any answer but a crash.
TEST(CodecTest, AlteredMessagesNeverCrash) {
  const uint64_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed: %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const std::string good = MessageOf(EncodeData(SampleManifestData()));
  for (size_t at = 0; at < good.size(); ++at) {
    for (int round = 0; round < 8; ++round) {
      std::string message = good;
      message[at] = static_cast<char>(random());
      if (round % 2 == 1) message[random() % message.size()] = static_cast<char>(random());
      const auto manifest = DecodeManifest(Framed(message));
      ASSERT_TRUE(manifest.ok() || manifest.status().code() == absl::StatusCode::kDataLoss) << manifest.status();
    }
  }
}

TEST(CodecTest, ManyTensors) {
  const ManifestData data = ManyTensors(100000);
  SW_ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeManifest(EncodeData(data)));
  EXPECT_EQ(decoded->data(), data);
}

}  // namespace
}  // namespace shardwright
