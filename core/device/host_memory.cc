#include "shardwright/core/device/host_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace shardwright {
namespace {

std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional<uint64_t>(number) : std::nullopt;  // cgroup v2 says "max" for no limit
}

std::optional<uint64_t> MemAvailable() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "MemAvailable:")) continue;
    uint64_t kib = 0;
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() > 1 && absl::SimpleAtoi(words[1], &kib)) return kib * 1024;
  }
  return std::nullopt;
}

// Headroom of one group: limit - usage + page cache, which the kernel gives back under pressure.
std::optional<uint64_t> Headroom(const std::string& folder, const char* limit_name, const char* usage_name,
                                 absl::string_view cache_key) {
  const std::optional<uint64_t> limit = ReadNumber(absl::StrCat(folder, "/", limit_name));
  const std::optional<uint64_t> usage = ReadNumber(absl::StrCat(folder, "/", usage_name));
  if (!limit || !usage) return std::nullopt;
  uint64_t cache = 0;
  std::ifstream stat(absl::StrCat(folder, "/memory.stat"));
  std::string key;
  for (uint64_t value = 0; stat >> key >> value;) {
    if (key == cache_key) cache = value;
  }
  const uint64_t held = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, held);
}

// The least headroom of this process's group and its ancestors.
std::optional<uint64_t> CgroupHeadroom() {
  std::ifstream file("/proc/self/cgroup");
  std::optional<uint64_t> least;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool v2 = parts[1].empty();
    if (!v2 && parts[1] != "memory") continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::string group = parts[2];; group.resize(group.rfind('/'))) {
      const std::string folder = absl::StrCat(root, group == "/" ? "" : group);
      const std::optional<uint64_t> here =
          v2 ? Headroom(folder, "memory.max", "memory.current", "inactive_file")
             : Headroom(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
      if (here) least = std::min(*here, least.value_or(UINT64_MAX));
      if (group.find('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace

uint64_t AvailableHostBytes() {
  return std::min(MemAvailable().value_or(UINT64_MAX), CgroupHeadroom().value_or(UINT64_MAX));
}

}  // namespace shardwright
