#include "shardwright/tests/testing/fault_storage.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/storage/storage_status.h"

namespace shardwright::testing {
namespace {

absl::string_view NameOf(StorageCall call) {
  constexpr absl::string_view kNames[] = {
      "OpenRead", "ReadAt",          "CreateFile", "OpenWrite",     "WriteAt",    "Allocate",        "Sync",
      "Close",    "CreateDirectory", "Info",       "List",          "RemoveFile", "RemoveDirectory", "Rename",
      "Link",     "Symlink",         "ReadLink",   "SyncDirectory", "Lock",       "FreeBytes"};
  return kNames[static_cast<size_t>(call)];
}

bool TakesSpace(StorageCall call) {
  switch (call) {
    case StorageCall::kCreateFile:
    case StorageCall::kWriteAt:
    case StorageCall::kAllocate:
    case StorageCall::kCreateDirectory:
    case StorageCall::kLink:
    case StorageCall::kSymlink:
    case StorageCall::kLock:
      return true;
    default:
      return false;
  }
}

// File systems that allocate late find out that late.
bool MayFindDiskFull(StorageCall call) {
  return TakesSpace(call) || call == StorageCall::kSync || call == StorageCall::kClose;
}

absl::Status NoSpace(StorageCall call, absl::string_view path) {
  return ErrnoStatus(NameOf(call), path, ENOSPC, "injected");
}

}  // namespace

class FaultStorage::FaultReadFile : public ReadFile {
 public:
  FaultReadFile(FaultStorage& storage, absl::string_view path, std::unique_ptr<ReadFile> base, uint64_t start)
      : storage_(storage), path_(path), base_(std::move(base)), start_(start) {}

  uint64_t size_bytes() const override { return base_->size_bytes(); }

  absl::Status ReadAt(uint64_t offset_bytes, absl::Span<char> out) const override {
    {
      absl::MutexLock lock(&storage_.mu_);
      if (start_ != storage_.starts_) return storage_.Down(StorageCall::kReadAt, path_);
      SW_RETURN_IF_ERROR(storage_.Begin(StorageCall::kReadAt, path_,
                                        absl::StrCat(" [", offset_bytes, ", ", offset_bytes + out.size(), ")")));
    }
    SW_RETURN_IF_ERROR(base_->ReadAt(offset_bytes, out));
    storage_.counters_.reads.fetch_add(1, std::memory_order_relaxed);
    storage_.counters_.bytes_read.fetch_add(out.size(), std::memory_order_relaxed);
    return absl::OkStatus();
  }

 private:
  FaultStorage& storage_;
  const std::string path_;
  const std::unique_ptr<ReadFile> base_;
  const uint64_t start_;
};

class FaultStorage::FaultWriteFile : public WriteFile {
 public:
  FaultWriteFile(FaultStorage& storage, absl::string_view path, std::unique_ptr<WriteFile> base, DiskNodePtr node,
                 uint64_t start)
      : storage_(storage), path_(path), base_(std::move(base)), node_(std::move(node)), start_(start) {}

  absl::Status WriteAt(uint64_t offset_bytes, absl::Span<const char> bytes) override {
    absl::MutexLock lock(&storage_.mu_);
    bool half = false;
    const absl::Status fault =
        Begin(StorageCall::kWriteAt, absl::StrCat(" [", offset_bytes, ", ", offset_bytes + bytes.size(), ")"), &half);
    if (!fault.ok() && !half) return fault;
    if (half) bytes = bytes.first(bytes.size() / 2);
    const uint64_t size = node_->now_bytes.size();
    const uint64_t end = offset_bytes + bytes.size();
    const uint64_t growth = end > size && end >= offset_bytes ? end - size : 0;
    const uint64_t lacking = growth - storage_.TakeSpace(growth);
    const absl::Span<const char> fitting = bytes.first(bytes.size() - std::min<uint64_t>(lacking, bytes.size()));
    SW_RETURN_IF_ERROR(base_->WriteAt(offset_bytes, fitting));
    storage_.disk_.Write(node_, offset_bytes, fitting);
    storage_.counters_.writes.fetch_add(1, std::memory_order_relaxed);
    storage_.counters_.bytes_written.fetch_add(fitting.size(), std::memory_order_relaxed);
    return lacking > 0 ? NoSpace(StorageCall::kWriteAt, path_) : fault;
  }

  absl::Status Allocate(uint64_t size_bytes) override {
    absl::MutexLock lock(&storage_.mu_);
    SW_RETURN_IF_ERROR(Begin(StorageCall::kAllocate, absl::StrCat(" ", size_bytes)));
    const uint64_t size = node_->now_bytes.size();
    const uint64_t growth = size_bytes > size ? size_bytes - size : 0;
    if (storage_.space_left_.value_or(UINT64_MAX) < growth) return NoSpace(StorageCall::kAllocate, path_);
    SW_RETURN_IF_ERROR(base_->Allocate(size_bytes));
    storage_.TakeSpace(growth);
    storage_.disk_.Extend(node_, size_bytes);
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    absl::MutexLock lock(&storage_.mu_);
    SW_RETURN_IF_ERROR(Begin(StorageCall::kSync));
    SW_RETURN_IF_ERROR(base_->Sync());
    storage_.disk_.Sync(*node_);
    storage_.counters_.syncs.fetch_add(1, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  absl::Status Close() override {
    absl::MutexLock lock(&storage_.mu_);
    const absl::Status fault = Begin(StorageCall::kClose);
    // A file whose close failed is closed.
    const absl::Status closed = base_->Close();
    return fault.ok() ? closed : fault;
  }

 private:
  absl::Status Begin(StorageCall call, absl::string_view detail = "", bool* half = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(storage_.mu_) {
    return start_ == storage_.starts_ ? storage_.Begin(call, path_, detail, half) : storage_.Down(call, path_);
  }

  FaultStorage& storage_;
  const std::string path_;
  const std::unique_ptr<WriteFile> base_;
  const DiskNodePtr node_;
  const uint64_t start_;
};

// The lock itself lies with the storage, which frees it when the process "dies".
class FaultStorage::FaultLock : public FileLock {
 public:
  explicit FaultLock(FaultStorage& storage) : storage_(storage) {}
  ~FaultLock() override {
    absl::MutexLock lock(&storage_.mu_);
    storage_.locks_.erase(this);
  }

 private:
  FaultStorage& storage_;
};

FaultStorage::~FaultStorage() = default;

void FaultStorage::FailAt(uint64_t operation, FaultKind kind) {
  absl::MutexLock lock(&mu_);
  faults_[operation] = kind;
}

void FaultStorage::FailNext(StorageCall call, FaultKind kind, uint64_t skip) {
  absl::MutexLock lock(&mu_);
  targeted_.push_back({call, kind, skip});
}

void FaultStorage::LimitSpace(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  space_left_ = bytes;
}

void FaultStorage::ClearFaults() {
  absl::MutexLock lock(&mu_);
  faults_.clear();
  targeted_.clear();
  space_left_.reset();
  full_ = false;
  short_write_ = false;
}

uint64_t FaultStorage::operations() const {
  absl::MutexLock lock(&mu_);
  return log_.size();
}

std::vector<std::string> FaultStorage::log() const {
  absl::MutexLock lock(&mu_);
  return log_;
}

absl::Status FaultStorage::CrashWith(std::optional<uint64_t> seed) {
  absl::MutexLock lock(&mu_);
  StopLocked();
  return disk_.Crash(seed);
}

void FaultStorage::KillProcess() {
  absl::MutexLock lock(&mu_);
  StopLocked();
}

void FaultStorage::StopLocked() {
  down_ = true;
  ++starts_;
  locks_.clear();
}

void FaultStorage::Restart() {
  ClearFaults();
  absl::MutexLock lock(&mu_);
  down_ = false;
}

absl::Status FaultStorage::Down(StorageCall call, absl::string_view path) const {
  return absl::UnavailableError(absl::StrCat(NameOf(call), " ", path, ": the machine is down (injected)"));
}

std::optional<FaultKind> FaultStorage::FaultOf(StorageCall call) {
  for (auto fault = targeted_.begin(); fault != targeted_.end(); ++fault) {
    if (fault->call != call || fault->skip-- > 0) continue;
    const FaultKind kind = fault->kind;
    targeted_.erase(fault);
    return kind;
  }
  const auto fault = faults_.find(log_.size() - 1);
  return fault == faults_.end() ? std::nullopt : std::optional(fault->second);
}

absl::Status FaultStorage::Begin(StorageCall call, absl::string_view path, absl::string_view detail, bool* half) {
  if (down_) return Down(call, path);
  log_.push_back(absl::StrCat(NameOf(call), " ", path, detail));
  const std::optional<FaultKind> kind = FaultOf(call);
  if (kind == FaultKind::kIoError) return ErrnoStatus(NameOf(call), path, EIO, "injected");
  if (kind == FaultKind::kCrash || kind == FaultKind::kTornWrite) {
    down_ = true;
    if (kind == FaultKind::kTornWrite && half != nullptr) *half = true;
    return Down(call, path);
  }
  if (kind == FaultKind::kNoSpace) {
    full_ = true;
    if (MayFindDiskFull(call)) return NoSpace(call, path);
  }
  if (kind == FaultKind::kShortWrite) short_write_ = true;
  if (short_write_ && half != nullptr) {
    short_write_ = false;
    *half = true;
    return NoSpace(call, path);
  }
  return full_ && TakesSpace(call) ? NoSpace(call, path) : absl::OkStatus();
}

uint64_t FaultStorage::TakeSpace(uint64_t bytes) {
  const uint64_t taken = std::min(bytes, space_left_.value_or(bytes));
  if (space_left_.has_value()) *space_left_ -= taken;
  return taken;
}

void FaultStorage::ReturnSpace(const DiskNodePtr& removed) {
  if (space_left_.has_value() && removed != nullptr && removed->links == 0) *space_left_ += removed->now_bytes.size();
}

absl::StatusOr<std::unique_ptr<WriteFile>> FaultStorage::WrapLocked(absl::StatusOr<std::unique_ptr<WriteFile>> file,
                                                                    absl::string_view path, DiskNodePtr node) {
  SW_RETURN_IF_ERROR(file);
  return std::make_unique<FaultWriteFile>(*this, path, *std::move(file), std::move(node), starts_);
}

absl::StatusOr<std::unique_ptr<ReadFile>> FaultStorage::OpenRead(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kOpenRead, path));
  SW_ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, base_.OpenRead(path));
  return std::make_unique<FaultReadFile>(*this, path, std::move(file), starts_);
}

absl::StatusOr<std::unique_ptr<WriteFile>> FaultStorage::CreateFile(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kCreateFile, path));
  const DiskPlace place = disk_.Find(path, /*follow_last=*/false);
  absl::StatusOr<std::unique_ptr<WriteFile>> file = base_.CreateFile(path);
  SW_RETURN_IF_ERROR(file);
  return WrapLocked(std::move(file), path, disk_.Create(place, FileType::kRegular));
}

absl::StatusOr<std::unique_ptr<WriteFile>> FaultStorage::OpenWrite(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kOpenWrite, path));
  absl::StatusOr<std::unique_ptr<WriteFile>> file = base_.OpenWrite(path);
  SW_RETURN_IF_ERROR(file);
  const DiskPlace place = disk_.Find(path, /*follow_last=*/true);
  SW_RETURN_IF_ERROR(disk_.Load(place));
  return WrapLocked(std::move(file), path, place.node);
}

absl::Status FaultStorage::CreateDirectory(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kCreateDirectory, path));
  const DiskPlace place = disk_.Find(path, /*follow_last=*/false);
  SW_RETURN_IF_ERROR(base_.CreateDirectory(path));
  disk_.Create(place, FileType::kDirectory);
  return absl::OkStatus();
}

absl::StatusOr<FileInfo> FaultStorage::Info(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kInfo, path));
  return base_.Info(path);
}

absl::StatusOr<std::vector<DirectoryEntry>> FaultStorage::List(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kList, path));
  return base_.List(path);
}

absl::Status FaultStorage::RemoveFile(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kRemoveFile, path));
  const DiskPlace place = disk_.Find(path, /*follow_last=*/false);
  if (place.node != nullptr && place.node->type != FileType::kDirectory) {
    SW_RETURN_IF_ERROR(disk_.Load(place));
  }
  SW_RETURN_IF_ERROR(base_.RemoveFile(path));
  disk_.Remove(place);
  ReturnSpace(place.node);
  return absl::OkStatus();
}

absl::Status FaultStorage::RemoveDirectory(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kRemoveDirectory, path));
  const DiskPlace place = disk_.Find(path, /*follow_last=*/false);
  SW_RETURN_IF_ERROR(base_.RemoveDirectory(path));
  disk_.Remove(place);
  return absl::OkStatus();
}

absl::Status FaultStorage::Rename(absl::string_view from, absl::string_view to) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kRename, from, absl::StrCat(" to ", to)));
  const DiskPlace from_place = disk_.Find(from, /*follow_last=*/false);
  const DiskPlace to_place = disk_.Find(to, /*follow_last=*/false);
  SW_RETURN_IF_ERROR(disk_.Load(from_place));
  SW_RETURN_IF_ERROR(disk_.Load(to_place));
  SW_RETURN_IF_ERROR(base_.Rename(from, to));
  disk_.Move(from_place, to_place);
  if (from_place.node != to_place.node) ReturnSpace(to_place.node);
  return absl::OkStatus();
}

absl::Status FaultStorage::Link(absl::string_view existing, absl::string_view name) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kLink, existing, absl::StrCat(" as ", name)));
  const DiskPlace existing_place = disk_.Find(existing, /*follow_last=*/false);
  const DiskPlace name_place = disk_.Find(name, /*follow_last=*/false);
  SW_RETURN_IF_ERROR(base_.Link(existing, name));
  SW_RETURN_IF_ERROR(disk_.Load(existing_place));
  disk_.Link(existing_place.node, name_place);
  return absl::OkStatus();
}

absl::Status FaultStorage::Symlink(absl::string_view target, absl::string_view name) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kSymlink, name, absl::StrCat(" to ", target)));
  const DiskPlace place = disk_.Find(name, /*follow_last=*/false);
  SW_RETURN_IF_ERROR(base_.Symlink(target, name));
  disk_.Create(place, FileType::kSymlink, target);
  return absl::OkStatus();
}

absl::StatusOr<std::string> FaultStorage::ReadLink(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kReadLink, path));
  return base_.ReadLink(path);
}

absl::Status FaultStorage::SyncDirectory(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kSyncDirectory, path));
  SW_RETURN_IF_ERROR(base_.SyncDirectory(path));
  disk_.SyncDirectory(disk_.Find(path, /*follow_last=*/true).node);
  counters_.syncs.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> FaultStorage::Lock(absl::string_view path, absl::string_view holder) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kLock, path));
  const DiskPlace place = disk_.Find(path, /*follow_last=*/true);
  SW_ASSIGN_OR_RETURN(std::unique_ptr<FileLock> held, base_.Lock(path, holder));
  // Its name is modelled, its text is not.
  if (place.node == nullptr) disk_.Create(place, FileType::kRegular);
  auto handed_out = std::make_unique<FaultLock>(*this);
  locks_[handed_out.get()] = std::move(held);
  return handed_out;
}

absl::StatusOr<uint64_t> FaultStorage::FreeBytes(absl::string_view path) {
  absl::MutexLock lock(&mu_);
  SW_RETURN_IF_ERROR(Begin(StorageCall::kFreeBytes, path));
  SW_ASSIGN_OR_RETURN(const uint64_t free, base_.FreeBytes(path));
  return full_ ? 0 : std::min(free, space_left_.value_or(UINT64_MAX));
}

}  // namespace shardwright::testing
