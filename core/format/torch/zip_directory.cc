#include "shardwright/core/format/torch/zip_directory.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/bytes/inflated_file.h"
#include "shardwright/core/format/bytes/range_file.h"
#include "shardwright/core/manifest/little_endian.h"

namespace shardwright::torch_format {
namespace {

constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr uint32_t kCentralMagic = 0x02014b50;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64Magic = 0x06064b50;
constexpr uint32_t kLocator64Magic = 0x07064b50;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kCentralBytes = 46;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kLocator64Bytes = 20;
constexpr uint64_t kMaxCommentBytes = 0xFFFF;
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint16_t kDeflateMethod = 8;
constexpr uint64_t kMaxDirectoryBytes = 1ull << 30;

template <typename... Parts>
absl::Status DataLoss(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat("zip archive: ", absl::StrCat(parts...)));
}

std::string Quote(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)), "\"");
}

uint16_t Load16(absl::string_view bytes, size_t at) {
  return LoadLittleEndian<uint16_t>(bytes.data() + at);
}
uint32_t Load32(absl::string_view bytes, size_t at) {
  return LoadLittleEndian<uint32_t>(bytes.data() + at);
}
uint64_t Load64(absl::string_view bytes, size_t at) {
  return LoadLittleEndian<uint64_t>(bytes.data() + at);
}

absl::StatusOr<std::string> ReadBytes(const ReadFile& file, uint64_t offset, uint64_t length) {
  std::string bytes(length, '\0');
  SW_RETURN_IF_ERROR(file.ReadAt(offset, absl::MakeSpan(bytes)));
  return bytes;
}

// Where the directory lies, and how much is in it.
struct Extent {
  uint64_t entries = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

// The offset of the end record in the tail of the file.
absl::StatusOr<size_t> FindEnd(absl::string_view tail) {
  if (tail.size() < kEndBytes) return DataLoss("a file of ", tail.size(), " bytes");
  for (size_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    if (Load32(tail, at) == kEndMagic && Load16(tail, at + 20) == tail.size() - at - kEndBytes) return at;
  }
  return DataLoss("no end of its directory: the file is cut, or no zip archive");
}

// The zip64 end record is the truth where there is one. The plain one has to agree as far as its fields reach.
absl::StatusOr<Extent> ReadEnd64(const ReadFile& file, uint64_t end_offset, absl::string_view locator,
                                 const Extent& plain) {
  const uint64_t offset = Load64(locator, 8);
  if (offset > end_offset || end_offset - offset != kEnd64Bytes + kLocator64Bytes) {
    return DataLoss("its zip64 end record is said to be at byte ", offset, ", want ",
                    end_offset - kEnd64Bytes - kLocator64Bytes);
  }
  SW_ASSIGN_OR_RETURN(const std::string record, ReadBytes(file, offset, kEnd64Bytes));
  if (Load32(record, 0) != kEnd64Magic) return DataLoss("no zip64 end record at byte ", offset);
  const Extent wide{Load64(record, 32), Load64(record, 48), Load64(record, 40)};
  const bool agrees = (plain.entries == 0xFFFF || plain.entries == wide.entries) &&
                      (plain.length == 0xFFFFFFFF || plain.length == wide.length) &&
                      (plain.offset == 0xFFFFFFFF || plain.offset == wide.offset);
  if (!agrees) return DataLoss("its two end records disagree");
  if (wide.length > offset || wide.offset != offset - wide.length)
    return DataLoss("its directory does not end at its end");
  return wide;
}

// The last bytes of the file, from where its end record may begin. Comments, which would put that further off, are
// rare.
absl::StatusOr<std::string> ReadTail(const ReadFile& file) {
  SW_ASSIGN_OR_RETURN(std::string tail, ReadBytes(file, file.size_bytes() - std::min(file.size_bytes(), kEndBytes),
                                                  std::min(file.size_bytes(), kEndBytes)));
  if (FindEnd(tail).ok()) return tail;
  const uint64_t bytes = std::min(file.size_bytes(), kEndBytes + kMaxCommentBytes);
  return ReadBytes(file, file.size_bytes() - bytes, bytes);
}

absl::StatusOr<Extent> FindDirectory(const ReadFile& file) {
  SW_ASSIGN_OR_RETURN(const std::string tail, ReadTail(file));
  const uint64_t tail_offset = file.size_bytes() - tail.size();
  SW_ASSIGN_OR_RETURN(const size_t end, FindEnd(tail));
  const absl::string_view record = absl::string_view(tail).substr(end);
  const Extent plain{Load16(record, 10), Load32(record, 16), Load32(record, 12)};
  if (Load16(record, 4) != 0 || Load16(record, 6) != 0 || Load16(record, 8) != plain.entries) {
    return DataLoss("it is in several parts");
  }
  const uint64_t end_offset = tail_offset + end;
  if (end_offset >= kEnd64Bytes + kLocator64Bytes) {
    SW_ASSIGN_OR_RETURN(const std::string locator, ReadBytes(file, end_offset - kLocator64Bytes, kLocator64Bytes));
    if (Load32(locator, 0) == kLocator64Magic) return ReadEnd64(file, end_offset, locator, plain);
  }
  if (plain.length > end_offset || plain.offset != end_offset - plain.length) {
    return DataLoss("its directory is said to be at byte ", plain.offset, ", ", plain.length,
                    " bytes long, and ends at ", end_offset);
  }
  return plain;
}

// A 64-bit value of the central entry's zip64 field, which holds just those that do not fit their own fields, in order.
absl::StatusOr<uint64_t> Widen(uint32_t narrow, absl::string_view& wide) {
  if (narrow != 0xFFFFFFFF) return narrow;
  if (wide.size() < 8) return DataLoss("a size without its 64-bit value");
  const uint64_t value = Load64(wide, 0);
  wide.remove_prefix(8);
  return value;
}

absl::StatusOr<absl::string_view> FindExtra(absl::string_view extra, uint16_t id) {
  while (!extra.empty()) {
    if (extra.size() < 4 || Load16(extra, 2) > extra.size() - 4) return DataLoss("a damaged extra field");
    const absl::string_view field = extra.substr(4, Load16(extra, 2));
    if (Load16(extra, 0) == id) return field;
    extra.remove_prefix(4 + field.size());
  }
  return absl::string_view();
}

// Takes one entry off the front of the directory; data_offset_bytes is that of its local header.
absl::StatusOr<ZipEntry> TakeCentral(absl::string_view& directory) {
  if (directory.size() < kCentralBytes || Load32(directory, 0) != kCentralMagic) return DataLoss("a damaged directory");
  const uint64_t name_bytes = Load16(directory, 28);
  const uint64_t extra_bytes = Load16(directory, 30);
  const uint64_t all_bytes = kCentralBytes + name_bytes + extra_bytes + Load16(directory, 32);
  if (directory.size() < all_bytes) return DataLoss("a damaged directory");
  ZipEntry entry;
  entry.name = std::string(directory.substr(kCentralBytes, name_bytes));
  if ((Load16(directory, 8) & kEncryptedFlag) != 0) {
    return absl::UnimplementedError(absl::StrCat("zip entry ", Quote(entry.name), " is encrypted"));
  }
  const uint16_t method = Load16(directory, 10);
  if (method != 0 && method != kDeflateMethod) {
    return absl::UnimplementedError(absl::StrCat("zip entry ", Quote(entry.name), ": compression method ", method));
  }
  entry.deflated = method == kDeflateMethod;
  entry.crc32 = Load32(directory, 16);
  SW_ASSIGN_OR_RETURN(absl::string_view wide,
                      FindExtra(directory.substr(kCentralBytes + name_bytes, extra_bytes), kZip64Extra));
  SW_ASSIGN_OR_RETURN(entry.bytes, Widen(Load32(directory, 24), wide));
  SW_ASSIGN_OR_RETURN(entry.stored_bytes, Widen(Load32(directory, 20), wide));
  SW_ASSIGN_OR_RETURN(entry.data_offset_bytes, Widen(Load32(directory, 42), wide));
  directory.remove_prefix(all_bytes);
  return entry;
}

absl::Status CheckSizes(const ZipEntry& entry) {
  if (!entry.deflated && entry.bytes != entry.stored_bytes) {
    return DataLoss("entry ", Quote(entry.name), " of ", entry.bytes, " bytes is stored in ", entry.stored_bytes);
  }
  if (entry.deflated && entry.bytes / kMaxInflation > entry.stored_bytes) {
    return DataLoss("entry ", Quote(entry.name), ": ", entry.stored_bytes, " deflated bytes cannot give ", entry.bytes);
  }
  return absl::OkStatus();
}

// Moves the offset of the local header on to that of the data.
absl::Status ResolveLocal(const ReadFile& file, uint64_t limit, ZipEntry& entry) {
  const uint64_t header = entry.data_offset_bytes;
  const uint64_t named_bytes = kLocalBytes + entry.name.size();
  if (header > limit || named_bytes > limit - header) return DataLoss("entry ", Quote(entry.name), " lies outside");
  SW_ASSIGN_OR_RETURN(const std::string local, ReadBytes(file, header, named_bytes));
  if (Load32(local, 0) != kLocalMagic) return DataLoss("no entry ", Quote(entry.name), " at byte ", header);
  if (Load16(local, 26) != entry.name.size() || absl::string_view(local).substr(kLocalBytes) != entry.name) {
    return DataLoss("entry ", Quote(entry.name), " has another name in place than in the directory");
  }
  if (((Load16(local, 6) & kEncryptedFlag) != 0) || (Load16(local, 8) == kDeflateMethod) != entry.deflated) {
    return DataLoss("entry ", Quote(entry.name), " is stored in another way than the directory says");
  }
  entry.data_offset_bytes = header + named_bytes + Load16(local, 28);
  if (entry.data_offset_bytes > limit || entry.stored_bytes > limit - entry.data_offset_bytes) {
    return DataLoss("entry ", Quote(entry.name), " of ", entry.stored_bytes, " bytes reaches outside");
  }
  return absl::OkStatus();
}

// Headers count as part of the entries.
absl::Status CheckOverlaps(const std::vector<ZipEntry>& entries) {
  std::vector<const ZipEntry*> sorted;
  sorted.reserve(entries.size());
  for (const ZipEntry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->data_offset_bytes < b->data_offset_bytes; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const uint64_t end = sorted[i - 1]->data_offset_bytes + sorted[i - 1]->stored_bytes;
    if (sorted[i]->data_offset_bytes - kLocalBytes - sorted[i]->name.size() >= end) continue;
    return DataLoss("entries ", Quote(sorted[i - 1]->name), " and ", Quote(sorted[i]->name), " overlap");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ZipEntry>> ReadZipDirectory(const ReadFile& file) {
  SW_ASSIGN_OR_RETURN(const Extent extent, FindDirectory(file));
  if (extent.entries > extent.length / kCentralBytes || extent.length > kMaxDirectoryBytes) {
    return DataLoss("a directory of ", extent.entries, " entries in ", extent.length, " bytes");
  }
  SW_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(file, extent.offset, extent.length));
  absl::string_view directory = bytes;
  std::vector<ZipEntry> entries;
  absl::flat_hash_set<std::string> names;
  while (!directory.empty()) {
    SW_ASSIGN_OR_RETURN(ZipEntry entry, TakeCentral(directory));
    SW_RETURN_IF_ERROR(CheckSizes(entry));
    SW_RETURN_IF_ERROR(ResolveLocal(file, extent.offset, entry));
    if (!names.insert(entry.name).second) return DataLoss("entry ", Quote(entry.name), " is there twice");
    entries.push_back(std::move(entry));
  }
  if (entries.size() != extent.entries) {
    return DataLoss("a directory of ", entries.size(), " entries, want ", extent.entries);
  }
  SW_RETURN_IF_ERROR(CheckOverlaps(entries));
  return entries;
}

absl::StatusOr<std::string> ReadZipEntry(std::shared_ptr<const ReadFile> file, const ZipEntry& entry) {
  std::shared_ptr<const ReadFile> data = MakeRangeFile(std::move(file), entry.data_offset_bytes, entry.stored_bytes);
  if (entry.deflated) data = MakeInflatedFile(std::move(data), entry.bytes);
  std::string bytes;
  // Grows with what is really there: a deflated entry's size is only a claim.
  for (constexpr uint64_t kPiece = 16 << 20; bytes.size() < entry.bytes;) {
    const uint64_t begin = bytes.size();
    bytes.resize(std::min(entry.bytes, begin + kPiece));
    SW_RETURN_IF_ERROR(data->ReadAt(begin, absl::MakeSpan(bytes).subspan(begin))) << "zip entry " << Quote(entry.name);
  }
  const uint32_t crc = Crc32(bytes);
  if (entry.crc32 == 0 || crc == entry.crc32) return bytes;
  return DataLoss("entry ", Quote(entry.name), absl::StrFormat(": crc32: want %08x, got %08x", entry.crc32, crc));
}

}  // namespace shardwright::torch_format
