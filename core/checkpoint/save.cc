#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/checkpoint/item_writer.h"
#include "shardwright/core/checkpoint/save_records.h"
#include "shardwright/core/device/buffer.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/manifest/codec.h"

namespace shardwright {
namespace {

std::string MakeNonce() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

// One rank's part of a save. Ranks agree after each stage on whether all of them are through it: a rank that fails
// takes part in the agreement, too, so that nobody waits for it.
class SaveRun {
 public:
  SaveRun(Storage& storage, absl::string_view path, const SavePlan& plan, const TensorSource& source,
          const SaveContent& content, MemoryBudget& budget, Communicator& comm)
      : storage_(storage), path_(path), plan_(plan), source_(source), content_(content), budget_(budget), comm_(comm) {}

  absl::StatusOr<SaveReport> Run() {
    const absl::Time begin = absl::Now();
    const absl::Status saved = Stages();
    if (!saved.ok()) return FailTogether(saved);
    SaveReport report{path_, plan_.BytesOf(comm_.rank()), 0, absl::Now() - begin};
    for (size_t i = 0; i < plan_.files.size(); ++i) report.total_bytes += headers_[i].bytes + plan_.files[i].data_bytes;
    for (const HeaderRecord& header : my_headers_) report.bytes_written += header.bytes;
    return report;
  }

 private:
  absl::Status Stages() {
    SW_RETURN_IF_ERROR(AgreeOnStatus(comm_, Prepare()));
    SW_RETURN_IF_ERROR(ComparePlans());
    SW_RETURN_IF_ERROR(MakeTemporary());
    SW_RETURN_IF_ERROR(AgreeOnStatus(comm_, CreateFiles()));
    SW_RETURN_IF_ERROR(ShareHeaders());
    SW_RETURN_IF_ERROR(AgreeOnStatus(comm_, WriteFiles()));
    SW_ASSIGN_OR_RETURN(const std::vector<std::string> records, comm_.AllGatherBytes(my_record_));
    return AgreeOnStatus(comm_, IsRoot() ? Publish(records) : absl::OkStatus());
  }

  bool IsRoot() const { return comm_.rank() == 0; }

  // Everything that can be refused before anything is made.
  absl::Status Prepare() {
    if (plan_.world.size != comm_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the save is planned for ", plan_.world.size, " ranks, there are ", comm_.size()));
    }
    if (IsRoot()) {
      SW_RETURN_IF_ERROR(CheckFree());
    }
    const uint64_t staging = std::min(plan_.peak_bytes_per_rank, plan_.BytesOf(comm_.rank()));
    SW_ASSIGN_OR_RETURN(reservation_, budget_.Reserve(staging, "saving a checkpoint"));
    SW_ASSIGN_OR_RETURN(staging_, HostBuffer::Allocate(staging));
    return absl::OkStatus();
  }

  absl::Status CheckFree() {
    const absl::StatusOr<FileInfo> info = storage_.Info(path_);
    if (info.ok()) return absl::AlreadyExistsError("the name is taken; checkpoints are never written over");
    return absl::IsNotFound(info.status()) ? absl::OkStatus() : info.status();
  }

  // Ranks with different plans would write into each other's bytes.
  absl::Status ComparePlans() {
    SW_ASSIGN_OR_RETURN(const std::vector<std::string> digests, comm_.AllGatherBytes(plan_.Digest().ToString()));
    for (size_t rank = 1; rank < digests.size(); ++rank) {
      if (digests[rank] == digests[0]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("ranks 0 and ", rank, " have planned different saves: their tensors differ"));
    }
    return absl::OkStatus();
  }

  absl::Status MakeTemporary() {
    const std::string name = IsRoot() ? TemporaryDirectoryName(BaseName(path_), MakeNonce()) : "";
    absl::Status made;
    if (IsRoot()) {
      temporary_ = JoinPath(ParentPath(path_), name);
      made = CreateTemporary();
    }
    SW_ASSIGN_OR_RETURN(const std::string shared_name, comm_.BroadcastBytes(name, 0));
    temporary_ = JoinPath(ParentPath(path_), shared_name);
    return AgreeOnStatus(comm_, made);
  }

  absl::Status CreateTemporary() {
    const std::string parent = ParentPath(path_);
    if (!Exists(storage_, parent)) {
      SW_RETURN_IF_ERROR(storage_.CreateDirectories(parent));
      SW_RETURN_IF_ERROR(storage_.SyncDirectory(ParentPath(parent)));
    }
    return storage_.CreateDirectory(temporary_);
  }

  absl::Status CreateFiles() {
    for (uint32_t file = 0; file < plan_.files.size(); ++file) {
      if (plan_.files[file].creator != comm_.rank()) continue;
      SW_RETURN_IF_ERROR(CreateOne(file));
    }
    return absl::OkStatus();
  }

  // Reserves all of the space first: a full disk shows before any byte is written.
  absl::Status CreateOne(uint32_t file) {
    const PlannedFile& planned = plan_.files[file];
    SW_ASSIGN_OR_RETURN(const std::string header, NativeFileHeader(plan_, planned));
    SW_ASSIGN_OR_RETURN(open_[file], storage_.CreateFile(JoinPath(temporary_, planned.path)));
    SW_RETURN_IF_ERROR(open_[file]->Allocate(header.size() + planned.data_bytes));
    SW_RETURN_IF_ERROR(open_[file]->WriteAt(0, header));
    my_headers_.push_back({file, header.size(), Crc32c(header)});
    return absl::OkStatus();
  }

  absl::Status ShareHeaders() {
    SW_ASSIGN_OR_RETURN(const std::vector<std::string> messages,
                        comm_.AllGatherBytes(EncodeHeaderRecords(my_headers_)));
    SW_ASSIGN_OR_RETURN(headers_, DecodeHeaderRecords(messages, plan_));
    return absl::OkStatus();
  }

  absl::Status WriteFiles() {
    const std::vector<WriteItem> items = plan_.ItemsOf(comm_.rank());
    std::vector<ItemChecksums> checksums;
    checksums.reserve(items.size());
    ItemWriter writer(source_, staging_.span());
    for (const WriteItem& item : items) {
      const TensorMeta& tensor = plan_.tensors[item.tensor].meta;
      SW_ASSIGN_OR_RETURN(WriteFile* const file, OpenForWriting(item.file));
      const uint64_t offset = headers_[item.file].bytes + item.data_offset_bytes;
      SW_ASSIGN_OR_RETURN(ItemChecksums written, writer.Write(tensor, item, *file, offset),
                          _ << "tensor \"" << tensor.name << "\"");
      checksums.push_back(std::move(written));
    }
    SW_RETURN_IF_ERROR(writer.Flush());
    SW_RETURN_IF_ERROR(SyncFiles());
    SW_ASSIGN_OR_RETURN(my_record_, EncodeRankRecord(content_.rank_extras, checksums));
    return absl::OkStatus();
  }

  absl::StatusOr<WriteFile*> OpenForWriting(uint32_t file) {
    std::unique_ptr<WriteFile>& open = open_[file];
    if (open == nullptr) {
      SW_ASSIGN_OR_RETURN(open, storage_.OpenWrite(JoinPath(temporary_, plan_.files[file].path)));
    }
    return open.get();
  }

  absl::Status SyncFiles() {
    for (auto& [index, file] : open_) {
      SW_RETURN_IF_ERROR(file->Sync());
      SW_RETURN_IF_ERROR(file->Close());
    }
    open_.clear();
    return absl::OkStatus();
  }

  // Called when every rank has synced what it wrote. The rename is the commit.
  absl::Status Publish(const std::vector<std::string>& records) {
    SW_ASSIGN_OR_RETURN(const std::shared_ptr<const Manifest> manifest,
                        BuildManifest(plan_, content_, headers_, records));
    SW_ASSIGN_OR_RETURN(const std::string bytes, EncodeManifest(*manifest));
    SW_RETURN_IF_ERROR(WriteWholeFile(storage_, JoinPath(temporary_, kManifestFileName), bytes));
    SW_RETURN_IF_ERROR(storage_.SyncDirectory(temporary_));
    SW_RETURN_IF_ERROR(CheckFree());
    SW_RETURN_IF_ERROR(storage_.Rename(temporary_, path_));
    temporary_.clear();
    SW_RETURN_IF_ERROR(storage_.SyncDirectory(ParentPath(path_)))
        << "the checkpoint is complete and in place, but its name may not survive a power cut";
    return absl::OkStatus();
  }

  // Ranks that agreed to fail meet once more, so that rank 0 removes the files when nobody works on them. A group that
  // is broken does not meet: others may then find their files gone, and report why instead of that.
  absl::Status FailTogether(const absl::Status& failure) {
    open_.clear();
    const absl::Status group = comm_.Barrier();
    // Best effort: what is left has a name that says what it is.
    if (IsRoot() && !temporary_.empty()) RemoveTree(storage_, temporary_).IgnoreError();
    return !group.ok() && absl::IsNotFound(failure) ? group : failure;
  }

  Storage& storage_;
  const std::string path_;
  const SavePlan& plan_;
  const TensorSource& source_;
  const SaveContent& content_;
  MemoryBudget& budget_;
  Communicator& comm_;

  MemoryBudget::Reservation reservation_;
  HostBuffer staging_;
  std::string temporary_;  // empty before it is made and after it was renamed
  std::map<uint32_t, std::unique_ptr<WriteFile>> open_;
  std::vector<HeaderRecord> my_headers_;
  std::vector<HeaderRecord> headers_;  // by file
  std::string my_record_;
};

}  // namespace

absl::StatusOr<SaveReport> SaveCheckpoint(Storage& storage, absl::string_view path, const SavePlan& plan,
                                          const TensorSource& source, const SaveContent& content, MemoryBudget& budget,
                                          Communicator& comm) {
  absl::StatusOr<SaveReport> report = SaveRun(storage, path, plan, source, content, budget, comm).Run();
  SW_RETURN_IF_ERROR(report.status()) << "saving " << path;
  return report;
}

}  // namespace shardwright
