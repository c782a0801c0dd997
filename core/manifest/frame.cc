#include "shardwright/core/manifest/frame.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/manifest/little_endian.h"
#include "shardwright/core/manifest/manifest.h"

namespace shardwright {
namespace {

// A byte above 127 and both kinds of line ends: a transfer in text mode shows.
constexpr char kMagic[8] = {'\x89', 'S', 'W', 'C', 'K', '\r', '\n', '\x1A'};

// Offsets of the fields.
constexpr size_t kVersionAt = 8;
constexpr size_t kMinReaderAt = 12;
constexpr size_t kLengthAt = 16;
constexpr size_t kZeroAt = 24;
constexpr size_t kHeadCrcAt = 28;
constexpr size_t kMessageCrcAt = 32;

uint32_t HeadCrc(absl::Span<const char> frame) {
  return Crc32c(frame.first(kHeadCrcAt));
}

uint32_t MessageCrc(absl::Span<const char> frame) {
  return Crc32c(frame.subspan(kFrameHeadBytes), HeadCrc(frame));
}

absl::Status CheckCrc(absl::string_view what, uint32_t want, uint32_t got) {
  if (want == got) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("crc32c of the manifest's %s: want %08x, got %08x", what, want, got));
}

absl::Status CheckHead(absl::Span<const char> frame) {
  if (frame.size() < kFrameHeadBytes) {
    return absl::DataLossError(absl::StrCat("manifest of ", frame.size(), " bytes: want at least ", kFrameHeadBytes));
  }
  if (std::memcmp(frame.data(), kMagic, sizeof(kMagic)) != 0) {
    return absl::DataLossError("not a manifest: it does not begin with \\x89SWCK\\r\\n\\x1A");
  }
  return CheckCrc("head", LoadLittleEndian<uint32_t>(&frame[kHeadCrcAt]), HeadCrc(frame));
}

absl::Status CheckVersions(const FrameVersions& versions) {
  if (versions.min_reader > kFormatVersion) {
    return absl::UnimplementedError(
        absl::StrCat("manifest of format version ", versions.format, ", which readers of version ", versions.min_reader,
                     " and later understand: this one reads version ", kFormatVersion, "; use a newer shardwright"));
  }
  if (versions.min_reader < 1 || versions.format < versions.min_reader) {
    return absl::DataLossError(absl::StrCat("manifest of format version ", versions.format,
                                            " with minimum reader version ", versions.min_reader,
                                            ": want 1 <= minimum <= version"));
  }
  return absl::OkStatus();
}

}  // namespace

void FillFrameHead(const FrameVersions& versions, absl::Span<char> frame) {
  std::memcpy(frame.data(), kMagic, sizeof(kMagic));
  StoreLittleEndian<uint32_t>(versions.format, &frame[kVersionAt]);
  StoreLittleEndian<uint32_t>(versions.min_reader, &frame[kMinReaderAt]);
  StoreLittleEndian<uint64_t>(frame.size() - kFrameHeadBytes, &frame[kLengthAt]);
  StoreLittleEndian<uint32_t>(0, &frame[kZeroAt]);
  StoreLittleEndian<uint32_t>(HeadCrc(frame), &frame[kHeadCrcAt]);
  StoreLittleEndian<uint32_t>(MessageCrc(frame), &frame[kMessageCrcAt]);
}

absl::StatusOr<FrameVersions> CheckFrame(absl::Span<const char> frame) {
  SW_RETURN_IF_ERROR(CheckHead(frame));
  const FrameVersions versions = {LoadLittleEndian<uint32_t>(&frame[kVersionAt]),
                                  LoadLittleEndian<uint32_t>(&frame[kMinReaderAt])};
  SW_RETURN_IF_ERROR(CheckVersions(versions));
  const uint64_t want_length = LoadLittleEndian<uint64_t>(&frame[kLengthAt]);
  const uint64_t length = frame.size() - kFrameHeadBytes;
  if (length != want_length || length > kMaxMessageBytes) {
    return absl::DataLossError(absl::StrCat("manifest's message of ", length, " bytes: want ", want_length,
                                            ", and at most ", kMaxMessageBytes));
  }
  if (LoadLittleEndian<uint32_t>(&frame[kZeroAt]) != 0) {
    return absl::DataLossError(absl::StrCat("manifest's word at byte ", kZeroAt, " is not zero"));
  }
  SW_RETURN_IF_ERROR(CheckCrc("message", LoadLittleEndian<uint32_t>(&frame[kMessageCrcAt]), MessageCrc(frame)));
  return versions;
}

}  // namespace shardwright
