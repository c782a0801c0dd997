#include "shardwright/core/data/text_data.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {
namespace {

constexpr uint64_t kReadBytes = 1 << 20;
// The text lives in memory on every rank; more than this is a wrong path rather than a text.
constexpr uint64_t kMaxTextBytes = uint64_t{8} << 30;

enum class Content { kText, kBinary };

// Follows symlinks of the path that the user gave; those inside a directory are left out, being second names as a rule.
absl::StatusOr<std::string> ResolvePath(absl::string_view path) {
  if (path.empty()) return absl::InvalidArgumentError("opening data: the path is empty");
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(std::string(path), error);
  if (!error) return resolved.string();
  const std::string message = absl::StrCat("opening data ", path, ": ", error.message());
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    return absl::NotFoundError(message);
  }
  if (error == std::errc::permission_denied) return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

bool IsHidden(absl::string_view name) {
  return absl::StartsWith(name, ".");
}
bool IsText(const DirectoryEntry& entry) {
  return entry.type == FileType::kRegular && !absl::EndsWith(entry.name, ".dat");
}

// Regular files below `root`, sorted by the bytes of their paths, so that the text is the same on every machine.
absl::StatusOr<std::vector<std::string>> ListFiles(Storage& storage, const std::string& root) {
  std::vector<std::string> files;
  std::vector<std::string> folders = {root};
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    SW_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, storage.List(folder));
    for (const DirectoryEntry& entry : entries) {
      if (IsHidden(entry.name)) continue;
      if (entry.type == FileType::kDirectory) folders.push_back(JoinPath(folder, entry.name));
      if (IsText(entry)) files.push_back(JoinPath(folder, entry.name));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Appends the file, or nothing of it once a NUL shows that it is binary.
absl::StatusOr<Content> AppendFile(Storage& storage, const std::string& path, std::string& text) {
  SW_ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, storage.OpenRead(path));
  const size_t begin = text.size();
  for (uint64_t offset = 0; offset < file->size_bytes();) {
    const uint64_t bytes = std::min(kReadBytes, file->size_bytes() - offset);
    if (text.size() + bytes > kMaxTextBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("reading ", path, ": the text exceeds ", FormatBytes(kMaxTextBytes), ", which is the limit"));
    }
    const size_t end = text.size();
    text.resize(end + bytes);
    SW_RETURN_IF_ERROR(file->ReadAt(offset, absl::MakeSpan(&text[end], bytes)));
    if (std::memchr(&text[end], '\0', bytes) != nullptr) {
      text.resize(begin);
      return Content::kBinary;
    }
    offset += bytes;
  }
  return Content::kText;
}

absl::StatusOr<std::string> ReadFolder(Storage& storage, const std::string& root) {
  SW_ASSIGN_OR_RETURN(const std::vector<std::string> files, ListFiles(storage, root));
  std::string text;
  for (const std::string& file : files) SW_RETURN_IF_ERROR(AppendFile(storage, file, text));
  return text;
}

absl::StatusOr<std::string> ReadFileAlone(Storage& storage, const std::string& path) {
  std::string text;
  SW_ASSIGN_OR_RETURN(const Content content, AppendFile(storage, path, text));
  if (content == Content::kBinary) {
    return absl::InvalidArgumentError(absl::StrCat("reading ", path, ": expected text, found a NUL byte"));
  }
  return text;
}

absl::StatusOr<std::string> ReadText(absl::string_view path) {
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  SW_ASSIGN_OR_RETURN(const std::string resolved, ResolvePath(path));
  SW_ASSIGN_OR_RETURN(const FileInfo info, storage->Info(resolved));
  if (info.type == FileType::kDirectory) return ReadFolder(*storage, resolved);
  if (info.type == FileType::kRegular) return ReadFileAlone(*storage, resolved);
  return absl::InvalidArgumentError(absl::StrCat("opening data ", path, ": expected a file or a directory"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextData>> TextData::Open(absl::string_view path, int64_t sample_tokens) {
  if (sample_tokens < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("opening data ", path, ": a sample needs at least 2 tokens, asked for ", sample_tokens));
  }
  SW_ASSIGN_OR_RETURN(std::string text, ReadText(path));
  if (text.size() < static_cast<uint64_t>(sample_tokens)) {
    return absl::InvalidArgumentError(absl::StrCat("opening data ", path, ": it has ", text.size(),
                                                   " bytes of text, one sample needs ", sample_tokens,
                                                   "; give more text or a shorter context"));
  }
  text.shrink_to_fit();
  return std::unique_ptr<TextData>(new TextData(std::move(text), sample_tokens));
}

TextData::TextData(std::string text, int64_t sample_tokens) : text_(std::move(text)), sample_tokens_(sample_tokens) {}

int64_t TextData::samples() const {
  return (static_cast<int64_t>(text_.size()) - 1) / (sample_tokens_ - 1);
}

std::string TextData::fingerprint() const {
  return absl::StrFormat("crc32c:%08x bytes:%d", Crc32c(text_), text_.size());
}

void TextData::Append(int64_t index, Batch& batch) const {
  SW_CHECK(index >= 0 && index < samples());
  SW_CHECK(batch.samples == 0 || batch.sample_tokens == sample_tokens_);
  const char* begin = text_.data() + index * (sample_tokens_ - 1);
  batch.sample_tokens = sample_tokens_;
  batch.samples += 1;
  for (int64_t i = 0; i < sample_tokens_; ++i) batch.tokens.push_back(static_cast<unsigned char>(begin[i]));
}

}  // namespace shardwright
