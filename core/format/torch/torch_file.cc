#include "shardwright/core/format/torch/torch_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/pickle/globals.h"
#include "shardwright/core/format/pickle/machine.h"
#include "shardwright/core/format/torch/zip_directory.h"

namespace shardwright::torch_format {
namespace {

constexpr uint64_t kMaxSmallRecord = 64;
constexpr int kMinVersion = 1;
constexpr int kMaxVersion = 10;

const ZipEntry* Find(const std::vector<ZipEntry>& entries, absl::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const ZipEntry& e) { return e.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

// The one folder that all entries lie in, with its slash. Torch takes the first entry's for it.
absl::StatusOr<std::string> FindRoot(const std::vector<ZipEntry>& entries) {
  if (entries.empty()) return absl::DataLossError("zip archive without entries");
  const size_t slash = entries[0].name.find('/');
  const std::string root = slash == std::string::npos ? "" : entries[0].name.substr(0, slash + 1);
  for (const ZipEntry& entry : entries) {
    if (!root.empty() && absl::StartsWith(entry.name, root)) continue;
    return absl::DataLossError(absl::StrCat("no torch file: zip entry \"", absl::CHexEscape(entry.name.substr(0, 200)),
                                            "\" is not in the folder \"", absl::CHexEscape(root), "\""));
  }
  return root;
}

absl::StatusOr<std::string> ReadSmall(const std::shared_ptr<const ReadFile>& file, const ZipEntry& entry) {
  if (entry.bytes > kMaxSmallRecord) {
    return absl::DataLossError(absl::StrCat("record of ", entry.bytes, " bytes, want at most ", kMaxSmallRecord));
  }
  return ReadZipEntry(file, entry);
}

absl::Status CheckVersion(const std::shared_ptr<const ReadFile>& file, const ZipEntry* entry) {
  if (entry == nullptr) return absl::DataLossError("the record \"version\" is missing");
  SW_ASSIGN_OR_RETURN(const std::string text, ReadSmall(file, *entry), _ << "record \"version\"");
  int version = 0;
  if (absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &version) && version >= kMinVersion &&
      version <= kMaxVersion) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("version \"", absl::CHexEscape(text), "\" of torch's file format, want ",
                                          kMinVersion, " to ", kMaxVersion));
}

absl::StatusOr<bool> ReadBigEndian(const std::shared_ptr<const ReadFile>& file, const ZipEntry* entry) {
  if (entry == nullptr) return false;
  SW_ASSIGN_OR_RETURN(const std::string text, ReadSmall(file, *entry), _ << "record \"byteorder\"");
  if (text == "little" || text == "big") return text == "big";
  return absl::DataLossError(absl::StrCat("byte order \"", absl::CHexEscape(text), "\", want little or big"));
}

absl::StatusOr<pickle::Graph> ParseObject(std::string bytes) {
  absl::StatusOr<pickle::Parsed> parsed = pickle::Parse(std::make_shared<const std::string>(std::move(bytes)));
  if (absl::IsOutOfRange(parsed.status())) return absl::DataLossError(parsed.status().message());
  SW_RETURN_IF_ERROR(parsed.status());
  SW_RETURN_IF_ERROR(pickle::CheckHarmless(parsed->graph));
  return std::move(parsed->graph);
}

bool IsKey(absl::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), absl::ascii_isdigit);
}

}  // namespace

absl::StatusOr<TorchFile> ReadTorchZip(const std::shared_ptr<const ReadFile>& file) {
  SW_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, ReadZipDirectory(*file));
  SW_ASSIGN_OR_RETURN(const std::string root, FindRoot(entries));
  if (Find(entries, absl::StrCat(root, "constants.pkl")) != nullptr) {
    return absl::UnimplementedError(
        "a TorchScript archive: a program, not a checkpoint. Save its state_dict() instead");
  }
  const ZipEntry* data = Find(entries, absl::StrCat(root, "data.pkl"));
  if (data == nullptr) return absl::DataLossError("no torch file: the record \"data.pkl\" is missing");
  SW_RETURN_IF_ERROR(CheckVersion(file, Find(entries, absl::StrCat(root, "version"))));
  TorchFile torch_file;
  SW_ASSIGN_OR_RETURN(torch_file.big_endian, ReadBigEndian(file, Find(entries, absl::StrCat(root, "byteorder"))));
  if (data->bytes > pickle::kMaxPickleBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("record \"data.pkl\" of ", data->bytes, " bytes is not read"));
  }
  SW_ASSIGN_OR_RETURN(std::string bytes, ReadZipEntry(file, *data));
  SW_ASSIGN_OR_RETURN(torch_file.graph, ParseObject(std::move(bytes)), _ << "record \"data.pkl\"");
  const std::string folder = absl::StrCat(root, "data/");
  for (const ZipEntry& entry : entries) {
    absl::string_view key = entry.name;
    if (!absl::ConsumePrefix(&key, folder) || !IsKey(key)) continue;
    torch_file.storages.emplace(
        key, StorageBytes{entry.data_offset_bytes, entry.stored_bytes, entry.bytes, entry.crc32, entry.deflated});
  }
  return torch_file;
}

absl::StatusOr<TorchFile> ReadTorchFile(const std::shared_ptr<const ReadFile>& file) {
  std::string head(std::min<uint64_t>(file->size_bytes(), 512), '\0');
  SW_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(head)));
  if (absl::StartsWith(head, kZipMagic)) return ReadTorchZip(file);
  if (absl::StartsWith(head, kLegacyMagic)) return ReadTorchLegacy(file);
  if (absl::StartsWith(head, "version https://git-lfs")) {
    return absl::DataLossError("a Git LFS pointer, not the file itself: run git lfs pull");
  }
  return absl::DataLossError(
      absl::StrCat("no torch file: it begins with \"", absl::CHexEscape(head.substr(0, 8)), "\""));
}

}  // namespace shardwright::torch_format
