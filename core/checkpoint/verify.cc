#include "shardwright/core/checkpoint/verify.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/checkpoint/data_files.h"
#include "shardwright/core/format/native/native.h"

namespace shardwright {
namespace {

constexpr size_t kWindowBytes = 1024 * 1024;

VerifyVerdict VerdictOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return VerifyVerdict::kOk;
    case absl::StatusCode::kDataLoss:
      return VerifyVerdict::kDamaged;
    case absl::StatusCode::kFailedPrecondition:
      return VerifyVerdict::kPartial;
    default:
      return VerifyVerdict::kUnreadable;
  }
}

// Damage outweighs what could not be read: it is known.
int Severity(VerifyVerdict verdict) {
  switch (verdict) {
    case VerifyVerdict::kOk:
      return 0;
    case VerifyVerdict::kUnsealed:
      return 1;
    case VerifyVerdict::kUnreadable:
      return 2;
    case VerifyVerdict::kPartial:
      return 3;
    case VerifyVerdict::kDamaged:
      return 4;
  }
  return 0;
}

struct PlacedShard {
  const TensorEntry* tensor;
  uint32_t index;
  const ShardMeta& meta() const { return tensor->shards[index]; }
};

class Verifier {
 public:
  Verifier(Storage& storage, absl::string_view path, const Manifest& manifest, CheckLevel level, VerifyResult* result)
      : manifest_(manifest),
        level_(level),
        files_(storage, path, manifest),
        window_(kWindowBytes, '\0'),
        result_(*result) {}

  void Run() {
    std::vector<bool> usable(manifest_.files().size());
    for (uint32_t file = 0; file < usable.size(); ++file) usable[file] = CheckFile(file);
    bool sealed = true;
    for (const PlacedShard& shard : ShardsByPlace()) {
      ++result_.shards;
      const bool has_checksums = shard.meta().length_bytes == 0 || !shard.meta().chunk_crc32c.empty();
      sealed = sealed && has_checksums;
      if (level_ == CheckLevel::kFull && has_checksums && usable[shard.meta().file]) CheckShard(shard);
    }
    if (!sealed) Note(VerifyVerdict::kUnsealed, "the structure is good, there are no checksums for some or all bytes");
    result_.bytes_checked = files_.bytes_read();
  }

 private:
  void Note(VerifyVerdict verdict, std::string problem) {
    result_.problems.push_back(std::move(problem));
    if (Severity(verdict) > Severity(result_.verdict)) result_.verdict = verdict;
  }

  // True if the file is there and as long as it should be, so that its shards can be read.
  bool CheckFile(uint32_t file) {
    const absl::Status opened = files_.Open(file);
    const absl::Status status = opened.ok() ? files_.CheckHeader(file, absl::MakeSpan(window_)) : opened;
    if (!status.ok()) Note(VerdictOf(status), std::string(status.message()));
    return opened.ok();
  }

  std::vector<PlacedShard> ShardsByPlace() const {
    std::vector<PlacedShard> shards;
    for (const TensorEntry& tensor : manifest_.tensors()) {
      for (uint32_t i = 0; i < tensor.shards.size(); ++i) shards.push_back({&tensor, i});
    }
    std::stable_sort(shards.begin(), shards.end(), [](const PlacedShard& a, const PlacedShard& b) {
      return std::tie(a.meta().file, a.meta().offset_bytes) < std::tie(b.meta().file, b.meta().offset_bytes);
    });
    return shards;
  }

  void CheckShard(const PlacedShard& shard) {
    const ShardMeta& meta = shard.meta();
    ShardHasher hasher;
    for (uint64_t done = 0; done < meta.length_bytes;) {
      const size_t length = std::min<uint64_t>(kWindowBytes, meta.length_bytes - done);
      const absl::Span<char> piece = absl::MakeSpan(window_).first(length);
      const absl::Status status = files_.Read(meta.file, meta.offset_bytes + done, piece);
      if (!status.ok()) return Note(VerdictOf(status), absl::StrCat(NameOf(shard), ": ", status.message()));
      hasher.Update(piece);
      done += length;
    }
    CompareChecksums(shard, hasher.FinishChunks(), hasher.FinishHash());
  }

  void CompareChecksums(const PlacedShard& shard, const std::vector<uint32_t>& got, const ContentHash& hash) {
    const std::vector<uint32_t>& want = shard.meta().chunk_crc32c;
    const auto bad = std::mismatch(want.begin(), want.end(), got.begin());
    if (bad.first == want.end()) {
      if (want.empty() || hash == shard.meta().hash) return;
      return Note(VerifyVerdict::kDamaged, absl::StrCat(NameOf(shard), ": content hash: want ",
                                                        shard.meta().hash.ToString(), ", got ", hash.ToString()));
    }
    size_t others = 0;
    for (size_t i = bad.first - want.begin() + 1; i < want.size(); ++i) others += want[i] != got[i] ? 1 : 0;
    const uint64_t begin = static_cast<uint64_t>(bad.first - want.begin()) * kChecksumChunkBytes;
    const uint64_t end = std::min(begin + kChecksumChunkBytes, shard.meta().length_bytes);
    std::string problem =
        absl::StrFormat("%s: crc32c of bytes [%d, %d): want %08x, got %08x", NameOf(shard),
                        shard.meta().offset_bytes + begin, shard.meta().offset_bytes + end, *bad.first, *bad.second);
    if (others > 0) absl::StrAppend(&problem, "; ", others, " more chunks of this shard are bad");
    Note(VerifyVerdict::kDamaged, std::move(problem));
  }

  std::string NameOf(const PlacedShard& shard) const {
    return absl::StrCat("tensor \"", absl::CHexEscape(shard.tensor->meta.name), "\", shard ", shard.index, ", in ",
                        files_.PathOf(shard.meta().file));
  }

  const Manifest& manifest_;
  const CheckLevel level_;
  DataFiles files_;
  std::string window_;
  VerifyResult& result_;
};

}  // namespace

absl::string_view VerdictName(VerifyVerdict verdict) {
  switch (verdict) {
    case VerifyVerdict::kOk:
      return "ok";
    case VerifyVerdict::kDamaged:
      return "DAMAGED";
    case VerifyVerdict::kPartial:
      return "partial";
    case VerifyVerdict::kUnsealed:
      return "unsealed";
    case VerifyVerdict::kUnreadable:
      return "unreadable";
  }
  return "unknown";
}

VerifyResult VerifyCheckpoint(Storage& storage, absl::string_view path, CheckLevel level) {
  VerifyResult result;
  result.path = std::string(path);
  if (IsTemporaryName(BaseName(path)) && Exists(storage, path)) {
    result.verdict = VerifyVerdict::kPartial;
    result.problems.push_back(absl::StrCat(path, ": a save that never finished"));
    return result;
  }
  const absl::StatusOr<std::shared_ptr<const Manifest>> manifest = OpenManifest(storage, path);
  if (!manifest.ok()) {
    result.verdict = VerdictOf(manifest.status());
    result.problems.push_back(std::string(manifest.status().message()));
    return result;
  }
  return VerifyOpened(storage, path, **manifest, level);
}

VerifyResult VerifyOpened(Storage& storage, absl::string_view path, const Manifest& manifest, CheckLevel level) {
  VerifyResult result;
  result.path = std::string(path);
  if (level != CheckLevel::kOff) Verifier(storage, path, manifest, level, &result).Run();
  return result;
}

}  // namespace shardwright
