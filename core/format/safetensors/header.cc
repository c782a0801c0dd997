#include "shardwright/core/format/safetensors/header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/safetensors/header_parser.h"
#include "shardwright/core/format/safetensors/json_text.h"
#include "shardwright/core/manifest/little_endian.h"

namespace shardwright::safetensors {
namespace {

constexpr uint64_t kMaxJsonBytes = 100'000'000;
constexpr uint64_t kPrefixBytes = 8;
constexpr absl::string_view kMetadataKey = "__metadata__";

// Types of the safetensors format that have no DType.
constexpr absl::string_view kUnsupportedDTypes[] = {"F6_E2M3", "F6_E3M2"};
// Two to a byte: its shapes count values, ours bytes.
constexpr absl::string_view kHalfByteDType = "F4";
constexpr int64_t kMaxHalfByteRow = std::numeric_limits<int64_t>::max() / 2;

std::string TensorLabel(absl::string_view name) {
  return absl::StrCat("tensor \"", absl::CHexEscape(name.substr(0, 200)), "\"");
}

absl::StatusOr<DType> DecodeDType(absl::string_view name) {
  if (name == kHalfByteDType) return DType::kFloat4E2M1x2;
  absl::StatusOr<DType> dtype = ParseDType(name);
  if (dtype.ok() && IsNativeDType(*dtype)) return dtype;
  if (absl::c_linear_search(kUnsupportedDTypes, name)) {
    return absl::UnimplementedError(absl::StrCat("element type ", name, " is not supported"));
  }
  return absl::DataLossError(absl::StrCat("unknown element type \"", absl::CHexEscape(name.substr(0, 64)), "\""));
}

// The shape in bytes, of one in values.
absl::Status HalveShape(Shape& shape) {
  if (!shape.empty() && shape.back() % 2 == 0) {
    shape.back() /= 2;
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat("shape ", ShapeToString(shape), " of ", kHalfByteDType,
                                               ": rows that end within a byte are not supported"));
}

absl::StatusOr<Shape> DecodeShape(const std::vector<uint64_t>& dimensions) {
  Shape shape;
  shape.reserve(dimensions.size());
  for (const uint64_t dimension : dimensions) {
    if (dimension > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::DataLossError(absl::StrCat("dimension of ", dimension, " overflows 64 bits"));
    }
    shape.push_back(static_cast<int64_t>(dimension));
  }
  return shape;
}

// kDataLoss unless shape and type give just the bytes that the offsets span.
absl::Status CheckLength(const Entry& entry) {
  Shape with_items = entry.shape;
  with_items.push_back(ItemSize(entry.dtype));
  const std::optional<int64_t> bytes = CheckedElements(with_items);
  if (!bytes.has_value()) {
    return absl::DataLossError(
        absl::StrCat("shape ", ShapeToString(entry.shape), " of ", DTypeName(entry.dtype), " overflows 64 bits"));
  }
  if (entry.begin_bytes > entry.end_bytes || entry.end_bytes - entry.begin_bytes != static_cast<uint64_t>(*bytes)) {
    return absl::DataLossError(absl::StrCat("data offsets ", entry.begin_bytes, " to ", entry.end_bytes, ", want ",
                                            *bytes, " bytes for shape ", ShapeToString(entry.shape), " of ",
                                            DTypeName(entry.dtype)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Entry> DecodeEntry(RawEntry raw) {
  if (raw.data_offsets.size() != 2) {
    return absl::DataLossError(absl::StrCat("want 2 data offsets, got ", raw.data_offsets.size()));
  }
  Entry entry;
  entry.name = std::move(raw.name);
  SW_ASSIGN_OR_RETURN(entry.dtype, DecodeDType(raw.dtype));
  SW_ASSIGN_OR_RETURN(entry.shape, DecodeShape(raw.shape));
  if (entry.dtype == DType::kFloat4E2M1x2) {
    SW_RETURN_IF_ERROR(HalveShape(entry.shape));
  }
  entry.begin_bytes = raw.data_offsets[0];
  entry.end_bytes = raw.data_offsets[1];
  SW_RETURN_IF_ERROR(CheckLength(entry));
  return entry;
}

void SortByOffset(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin_bytes, a.end_bytes, a.name) < std::tie(b.begin_bytes, b.end_bytes, b.name);
  });
}

// The entries, in order, follow each other without gap or overlap from 0 on.
absl::Status CheckTiling(const std::vector<Entry>& entries) {
  uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin_bytes != end) {
      return absl::DataLossError(absl::StrCat(TensorLabel(entry.name), " begins at byte ", entry.begin_bytes,
                                              " of the data, want ", end, ": ",
                                              entry.begin_bytes > end ? "a gap" : "an overlap"));
    }
    end = entry.end_bytes;
  }
  return absl::OkStatus();
}

// The length of the JSON, from the first eight bytes.
absl::StatusOr<uint64_t> DecodePrefix(absl::string_view bytes, uint64_t file_bytes) {
  if (file_bytes < kPrefixBytes || bytes.size() < kPrefixBytes) {
    return absl::DataLossError(absl::StrCat("a file of ", std::min<uint64_t>(file_bytes, bytes.size()),
                                            " bytes has no length prefix of ", kPrefixBytes));
  }
  const uint64_t length = LoadLittleEndian<uint64_t>(bytes.data());
  if (length > kMaxJsonBytes) {
    return absl::DataLossError(absl::StrCat("header of ", length, " bytes, at most ", kMaxJsonBytes, " are allowed"));
  }
  if (length > file_bytes - kPrefixBytes) {
    return absl::DataLossError(absl::StrCat("header of ", length, " bytes in a file of ", file_bytes));
  }
  return length;
}

absl::Status CheckEncodable(const Header& header) {
  absl::flat_hash_set<absl::string_view> names = {kMetadataKey};
  for (const Entry& entry : header.entries) {
    if (!names.insert(entry.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(TensorLabel(entry.name), ": the name is taken"));
    }
    if (!IsValidUtf8(entry.name)) {
      return absl::InvalidArgumentError(absl::StrCat(TensorLabel(entry.name), ": the name is not UTF-8"));
    }
    if (!IsKnownDType(static_cast<int>(entry.dtype))) {
      return absl::InvalidArgumentError(absl::StrCat(TensorLabel(entry.name), ": no element type"));
    }
    const bool is_half_byte = entry.dtype == DType::kFloat4E2M1x2;
    if (is_half_byte ? entry.shape.empty() || entry.shape.back() > kMaxHalfByteRow : !IsNativeDType(entry.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(TensorLabel(entry.name), " of shape ", ShapeToString(entry.shape),
                                                     ": safetensors files cannot hold ", DTypeName(entry.dtype)));
    }
    SW_RETURN_IF_ERROR(CheckLength(entry)) << TensorLabel(entry.name);
  }
  for (const auto& [key, value] : header.metadata) {
    if (!IsValidUtf8(key) || !IsValidUtf8(value)) {
      return absl::InvalidArgumentError(absl::StrCat("metadata \"", absl::CHexEscape(key), "\" is not UTF-8"));
    }
  }
  return CheckTiling(header.entries);
}

void AppendMetadata(const std::map<std::string, std::string>& metadata, std::string& json) {
  AppendJsonString(kMetadataKey, json);
  char separator = '{';
  json += ':';
  for (const auto& [key, value] : metadata) {
    json += separator;
    AppendJsonString(key, json);
    json += ':';
    AppendJsonString(value, json);
    separator = ',';
  }
  json += '}';
}

void AppendEntry(const Entry& entry, std::string& json) {
  AppendJsonString(entry.name, json);
  const bool is_half_byte = entry.dtype == DType::kFloat4E2M1x2;
  Shape shape = entry.shape;
  if (is_half_byte) shape.back() *= 2;
  absl::StrAppend(&json, ":{\"dtype\":\"", is_half_byte ? kHalfByteDType : DTypeName(entry.dtype), "\",\"shape\":[",
                  absl::StrJoin(shape, ","), "],\"data_offsets\":[", entry.begin_bytes, ",", entry.end_bytes, "]}");
}

std::string ToJson(const Header& header) {
  std::string json = "{";
  if (!header.metadata.empty()) AppendMetadata(header.metadata, json);
  for (const Entry& entry : header.entries) {
    if (json.size() > 1) json += ',';
    AppendEntry(entry, json);
  }
  return json + "}";
}

}  // namespace

absl::StatusOr<std::string> EncodeHeader(const Header& header, uint64_t alignment_bytes) {
  if (absl::Status status = CheckEncodable(header); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("encoding a safetensors header: ", status.message()));
  }
  std::string bytes = std::string(kPrefixBytes, '\0') + ToJson(header);
  if (alignment_bytes > 1) bytes.append((alignment_bytes - bytes.size() % alignment_bytes) % alignment_bytes, ' ');
  const uint64_t length = bytes.size() - kPrefixBytes;
  if (length > kMaxJsonBytes) {
    return absl::InvalidArgumentError(absl::StrCat("encoding a safetensors header: ", length, " bytes for ",
                                                   header.entries.size(), " tensors, at most ", kMaxJsonBytes,
                                                   " are allowed"));
  }
  StoreLittleEndian<uint64_t>(length, bytes.data());
  return bytes;
}

absl::StatusOr<Header> DecodeHeader(absl::string_view bytes, uint64_t file_bytes) {
  SW_ASSIGN_OR_RETURN(const uint64_t length, DecodePrefix(bytes, file_bytes));
  if (length > bytes.size() - kPrefixBytes) {
    return absl::DataLossError(absl::StrCat("header of ", length, " bytes is cut after ", bytes.size() - kPrefixBytes));
  }
  SW_ASSIGN_OR_RETURN(RawHeader raw, ParseHeaderJson(bytes.substr(kPrefixBytes, length)));
  Header header;
  header.metadata = std::move(raw.metadata);
  header.entries.reserve(raw.entries.size());
  for (RawEntry& raw_entry : raw.entries) {
    const std::string name = raw_entry.name;
    SW_ASSIGN_OR_RETURN(Entry entry, DecodeEntry(std::move(raw_entry)), _ << TensorLabel(name));
    header.entries.push_back(std::move(entry));
  }
  SortByOffset(header.entries);
  SW_RETURN_IF_ERROR(CheckTiling(header.entries));
  const uint64_t data_bytes = file_bytes - kPrefixBytes - length;
  const uint64_t end = header.entries.empty() ? 0 : header.entries.back().end_bytes;
  if (end != data_bytes) {
    return absl::DataLossError(
        absl::StrCat("tensors end at byte ", end, " of the data, want ", data_bytes, ", the end of the file"));
  }
  return header;
}

absl::StatusOr<OpenedHeader> ReadHeader(const ReadFile& file, absl::string_view path) {
  const uint64_t file_bytes = file.size_bytes();
  std::string bytes(std::min(file_bytes, kPrefixBytes), '\0');
  SW_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(bytes)));
  SW_ASSIGN_OR_RETURN(const uint64_t length, DecodePrefix(bytes, file_bytes), _ << "reading the header of " << path);
  bytes.resize(kPrefixBytes + length);
  SW_RETURN_IF_ERROR(file.ReadAt(kPrefixBytes, absl::MakeSpan(bytes).subspan(kPrefixBytes)));
  SW_ASSIGN_OR_RETURN(Header header, DecodeHeader(bytes, file_bytes), _ << "reading the header of " << path);
  return OpenedHeader{std::move(header), bytes.size()};
}

}  // namespace shardwright::safetensors
