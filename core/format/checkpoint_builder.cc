#include "shardwright/core/format/checkpoint_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/format/computed/computed_source.h"

namespace shardwright {
namespace {

constexpr size_t kMaxNotes = 100;
constexpr int kMaxSameNames = 100;

}  // namespace

CheckpointBuilder::CheckpointBuilder(Storage& storage, absl::string_view directory)
    : storage_(storage), directory_(directory) {}

absl::StatusOr<CheckpointBuilder::File> CheckpointBuilder::Open(absl::string_view relative_path) {
  SW_ASSIGN_OR_RETURN(std::shared_ptr<const ReadFile> file, storage_.OpenRead(JoinPath(directory_, relative_path)));
  const auto [place, is_new] =
      files_.try_emplace(std::string(relative_path), static_cast<uint32_t>(data_.files.size()));
  if (is_new) data_.files.push_back({.path = std::string(relative_path), .size_bytes = file->size_bytes()});
  return File{place->second, std::move(file)};
}

void CheckpointBuilder::AddTensor(TensorMeta meta, std::vector<Piece> pieces) {
  TensorEntry entry{.meta = std::move(meta)};
  entry.computed = !std::all_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.IsPlain(); });
  if (entry.computed) {
    computed_.push_back({entry.meta, std::move(pieces)});
  } else {
    const int64_t item = ItemSize(entry.meta.dtype);
    for (const Piece& piece : pieces) {
      const uint64_t begin =
          piece.box.empty() ? 0 : piece.bytes.offset_bytes + static_cast<uint64_t>(piece.first * item);
      entry.shards.push_back({.box = piece.box,
                              .file = piece.bytes.file,
                              .offset_bytes = begin,
                              .length_bytes = static_cast<uint64_t>(entry.meta.BytesOf(piece.box))});
    }
    const bool may_be_tied = entry.meta.role != Role::kOptimizer && entry.shards.size() == 1;
    if (may_be_tied && entry.shards[0].length_bytes > 0) {
      const auto [place, is_new] = places_.try_emplace(Place{entry.meta.role, entry.meta.dtype, entry.meta.shape,
                                                             entry.shards[0].file, entry.shards[0].offset_bytes},
                                                       entry.meta.name);
      if (!is_new) {
        entry.alias_of = place->second;
        entry.shards.clear();
      }
    }
  }
  names_.emplace(entry.meta.name, data_.tensors.size());
  data_.tensors.push_back(std::move(entry));
}

void CheckpointBuilder::AddAlias(TensorMeta meta, absl::string_view target) {
  names_.emplace(meta.name, data_.tensors.size());
  data_.tensors.push_back({.meta = std::move(meta), .alias_of = std::string(target)});
}

void CheckpointBuilder::AddNote(std::string note) {
  if (notes_.size() < kMaxNotes) {
    notes_.push_back(std::move(note));
  } else {
    ++notes_left_out_;
  }
}

const TensorMeta* CheckpointBuilder::FindTensor(absl::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &data_.tensors[found->second].meta;
}

std::string CheckpointBuilder::FreeName(absl::string_view name) const {
  std::string free(name);
  for (int i = 2; names_.contains(free); ++i) {
    // Nobody's file has so many; a hostile one must not make a search of it.
    if (i > kMaxSameNames) return absl::StrCat(name, "~#", data_.tensors.size());
    free = absl::StrCat(name, "~", i);
  }
  return free;
}

absl::StatusOr<OpenedCheckpoint> CheckpointBuilder::Finish(absl::string_view format) && {
  OpenedCheckpoint opened;
  opened.format = std::string(format);
  opened.directory = directory_;
  data_.writer = std::string(format);
  if (!computed_.empty()) {
    std::vector<std::string> paths;
    for (const FileMeta& file : data_.files) paths.push_back(JoinPath(directory_, file.path));
    auto computed = std::make_shared<ComputedSource>(storage_, std::move(paths));
    for (Computed& tensor : computed_) computed->Add(std::move(tensor.meta), std::move(tensor.pieces));
    opened.computed = std::move(computed);
  }
  if (notes_left_out_ > 0) notes_.push_back(absl::StrCat("and ", notes_left_out_, " notes more"));
  SW_ASSIGN_OR_RETURN(opened.manifest, Manifest::Create(std::move(data_), ManifestKind::kForeign));
  opened.checksums = std::move(checksums_);
  opened.notes = std::move(notes_);
  return opened;
}

}  // namespace shardwright
