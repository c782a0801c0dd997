#include "shardwright/tests/testing/disk_model.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright::testing {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 32;
constexpr int kMaxLinks = 40;

std::deque<std::string> Components(absl::string_view path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

// A mix of two versions of a file: each page is of one or the other, and so is the size.
std::string MixPages(const std::string& durable, const std::string& now, std::mt19937_64& random) {
  std::string mixed = random() % 2 == 0 ? durable : now;
  for (size_t page = 0; page < mixed.size(); page += kPageBytes) {
    const std::string& chosen = random() % 2 == 0 ? durable : now;
    for (size_t i = page; i < std::min(page + kPageBytes, mixed.size()); ++i) {
      mixed[i] = i < chosen.size() ? chosen[i] : '\0';
    }
  }
  return mixed;
}

}  // namespace

void DiskModel::Reset() {
  absolute_root_ = std::make_shared<DiskNode>();
  absolute_root_->type = FileType::kDirectory;
  relative_root_ = std::make_shared<DiskNode>();
  relative_root_->type = FileType::kDirectory;
  linked_.clear();
  journal_.clear();
  written_.clear();
  placed_.clear();
}

DiskPlace DiskModel::Find(absl::string_view path, bool follow_last) {
  const bool absolute = absl::StartsWith(path, "/");
  const DiskPlace root{.node = absolute ? absolute_root_ : relative_root_, .path = absolute ? "/" : "."};
  std::vector<DiskPlace> above = {root};  // the last one is where the walk stands
  std::deque<std::string> rest = Components(path);
  follow_last = follow_last || absl::EndsWith(path, "/");
  for (int links = 0; !rest.empty();) {
    const std::string name = std::move(rest.front());
    rest.pop_front();
    const DiskPlace here = above.back();
    if (here.node == nullptr || here.node->type != FileType::kDirectory) return {};
    if (name == ".") continue;
    if (name == "..") {
      SW_CHECK(above.size() > 1 || absolute);  // a relative path that leaves the working directory is not modelled
      if (above.size() > 1) above.pop_back();
      continue;
    }
    const std::string next_path = JoinPath(here.path, name);
    DiskNodePtr next = Lookup(*here.node, name, next_path);
    if (next != nullptr && next->type == FileType::kSymlink && (!rest.empty() || follow_last)) {
      if (++links > kMaxLinks) return {};
      if (absl::StartsWith(next->target, "/")) above = {{.node = absolute_root_, .path = "/"}};
      const std::deque<std::string> target = Components(next->target);
      rest.insert(rest.begin(), target.begin(), target.end());
      continue;
    }
    above.push_back({.directory = here.node, .name = name, .node = std::move(next), .path = next_path});
  }
  return above.back();
}

DiskNodePtr DiskModel::Lookup(DiskNode& directory, const std::string& name, const std::string& path) {
  const auto known = directory.names.find(name);
  if (known != directory.names.end() && known->second.now != nullptr) return known->second.now;
  const absl::StatusOr<FileInfo> info = base_.Info(path);
  if (!info.ok()) return nullptr;
  // Here before us, or made behind our back: durable.
  DiskNodePtr node = Meet(*info, path);
  directory.names[name] = {.now = node, .durable = node};
  if (info->type == FileType::kRegular && info->links > 1) LookupSiblings(directory, ParentPath(path));
  return node;
}

// A file with several names is restored under all that are known: those beside it must be.
void DiskModel::LookupSiblings(DiskNode& directory, const std::string& path) {
  const absl::StatusOr<std::vector<DirectoryEntry>> entries = base_.List(path);
  if (!entries.ok()) return;
  for (const DirectoryEntry& entry : *entries) Lookup(directory, entry.name, JoinPath(path, entry.name));
}

// The node of what the model has not seen under this name.
DiskNodePtr DiskModel::Meet(const FileInfo& info, const std::string& path) {
  const bool regular = info.type == FileType::kRegular;
  // Also with one name left: the others may have gone meanwhile, and come back after a crash.
  if (const auto known = linked_.find(info.inode); regular && known != linked_.end()) return known->second;
  auto node = std::make_shared<DiskNode>();
  node->type = info.type;
  node->links = info.links;
  if (info.type == FileType::kSymlink) node->target = base_.ReadLink(path).value_or("");
  if (regular && info.links > 1) linked_[info.inode] = node;
  return node;
}

absl::Status DiskModel::Load(const DiskPlace& place) {
  return place.node == nullptr ? absl::OkStatus() : LoadNode(*place.node, place.path);
}

absl::Status DiskModel::LoadNode(DiskNode& node, const std::string& path) {
  if (node.type == FileType::kRegular && !node.loaded) {
    SW_ASSIGN_OR_RETURN(node.now_bytes, ReadWholeFile(base_, path, kMaxFileBytes));
    node.durable_bytes = node.now_bytes;
    node.loaded = true;
  }
  if (node.type != FileType::kDirectory) return absl::OkStatus();
  SW_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, base_.List(path));
  for (const DirectoryEntry& entry : entries) {
    const std::string child_path = JoinPath(path, entry.name);
    const DiskNodePtr child = Lookup(node, entry.name, child_path);
    if (child == nullptr) continue;
    SW_RETURN_IF_ERROR(LoadNode(*child, child_path));
  }
  return absl::OkStatus();
}

DiskNodePtr DiskModel::Create(const DiskPlace& place, FileType type, absl::string_view target) {
  auto node = std::make_shared<DiskNode>();
  node->type = type;
  node->target = std::string(target);
  node->loaded = true;
  Apply({{place.directory, place.name, node}});
  return node;
}

void DiskModel::Link(const DiskNodePtr& node, const DiskPlace& place) {
  Apply({{place.directory, place.name, node}});
}

void DiskModel::Remove(const DiskPlace& place) {
  Apply({{place.directory, place.name, nullptr}});
}

void DiskModel::Move(const DiskPlace& from, const DiskPlace& to) {
  if (from.node == to.node) return;
  Apply({{from.directory, from.name, nullptr}, {to.directory, to.name, from.node}});
}

void DiskModel::Apply(Change change) {
  for (const Assignment& to : change) {
    DiskNode::Name& name = to.directory->names[to.name];
    if (name.now != nullptr) --name.now->links;
    if (to.node != nullptr) ++to.node->links;
    name.now = to.node;
  }
  journal_.push_back(std::move(change));
}

void DiskModel::MakeDurable(const Change& change) {
  for (const Assignment& to : change) to.directory->names[to.name].durable = to.node;
}

void DiskModel::Write(const DiskNodePtr& node, uint64_t offset_bytes, absl::Span<const char> bytes) {
  if (bytes.empty()) return;
  Extend(node, offset_bytes + bytes.size());
  std::copy(bytes.begin(), bytes.end(), node->now_bytes.begin() + static_cast<ptrdiff_t>(offset_bytes));
}

void DiskModel::Extend(const DiskNodePtr& node, uint64_t size_bytes) {
  if (node->now_bytes.size() < size_bytes) node->now_bytes.resize(size_bytes);
  written_.insert(node);
}

void DiskModel::SyncDirectory(const DiskNodePtr& directory) {
  // A change of this directory takes along the older ones of the same names: they cannot become durable after it.
  std::set<std::pair<const DiskNode*, std::string>> names;
  std::vector<bool> synced(journal_.size());
  for (size_t i = journal_.size(); i-- > 0;) {
    const Change& change = journal_[i];
    synced[i] = std::any_of(change.begin(), change.end(), [&](const Assignment& to) {
      return to.directory == directory || names.count({to.directory.get(), to.name}) > 0;
    });
    if (!synced[i]) continue;
    for (const Assignment& to : change) names.insert({to.directory.get(), to.name});
  }
  std::vector<Change> rest;
  for (size_t i = 0; i < journal_.size(); ++i) {
    if (synced[i]) {
      MakeDurable(journal_[i]);
    } else {
      rest.push_back(std::move(journal_[i]));
    }
  }
  journal_ = std::move(rest);
}

absl::Status DiskModel::Crash(std::optional<uint64_t> seed) {
  if (seed.has_value()) KeepSome(*seed);
  for (const auto& [root, path] : {std::pair(absolute_root_, "/"), std::pair(relative_root_, ".")}) {
    SW_RETURN_IF_ERROR(RemoveChanged(*root, path));
  }
  for (const auto& [root, path] : {std::pair(absolute_root_, "/"), std::pair(relative_root_, ".")}) {
    SW_RETURN_IF_ERROR(RestoreChanged(*root, path));
  }
  Reset();
  return absl::OkStatus();
}

void DiskModel::KeepSome(uint64_t seed) {
  std::mt19937_64 random(seed);
  // Directories are journalled: names reach the disk in their order.
  const size_t kept = random() % (journal_.size() + 1);
  for (size_t i = 0; i < kept; ++i) MakeDurable(journal_[i]);
  for (const DiskNodePtr& node : written_) node->durable_bytes = MixPages(node->durable_bytes, node->now_bytes, random);
}

bool DiskModel::Unchanged(const DiskNode::Name& name) {
  return name.now == name.durable && (name.now == nullptr || name.now->now_bytes == name.now->durable_bytes);
}

absl::Status DiskModel::RemoveChanged(DiskNode& directory, const std::string& path) {
  for (const auto& [child, name] : directory.names) {
    const std::string child_path = JoinPath(path, child);
    if (!Unchanged(name)) {
      SW_RETURN_IF_ERROR(RemoveTree(base_, child_path));
    } else if (name.now != nullptr) {
      placed_[name.now.get()] = child_path;
      SW_RETURN_IF_ERROR(RemoveChanged(*name.now, child_path));
    }
  }
  return absl::OkStatus();
}

absl::Status DiskModel::RestoreChanged(DiskNode& directory, const std::string& path) {
  for (const auto& [child, name] : directory.names) {
    if (name.durable == nullptr) continue;
    const std::string child_path = JoinPath(path, child);
    SW_RETURN_IF_ERROR(Unchanged(name) ? RestoreChanged(*name.durable, child_path)
                                       : Restore(*name.durable, child_path));
  }
  return absl::OkStatus();
}

absl::Status DiskModel::Restore(DiskNode& node, const std::string& path) {
  if (node.type == FileType::kSymlink) return base_.Symlink(node.target, path);
  if (node.type == FileType::kRegular) return RestoreFile(node, path);
  SW_CHECK(node.type == FileType::kDirectory);  // pipes and devices are not modelled
  SW_RETURN_IF_ERROR(base_.CreateDirectory(path));
  for (const auto& [child, name] : node.names) {
    if (name.durable == nullptr) continue;
    SW_RETURN_IF_ERROR(Restore(*name.durable, JoinPath(path, child)));
  }
  return absl::OkStatus();
}

absl::Status DiskModel::RestoreFile(DiskNode& node, const std::string& path) {
  const auto [placed, first] = placed_.try_emplace(&node, path);
  if (!first) return base_.Link(placed->second, path);
  SW_ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file, base_.CreateFile(path));
  SW_RETURN_IF_ERROR(file->WriteAt(0, node.durable_bytes));
  return file->Close();
}

}  // namespace shardwright::testing
