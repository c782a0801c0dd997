#include "shardwright/core/storage/storages.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/core/storage/posix.h"

namespace shardwright {
namespace {

// Never destroyed: files may still be open while the process ends.
Storage* ProcessPosixStorage() {
  static Storage* const storage = MakePosixStorage().release();
  return storage;
}

Storage* ProcessMemoryStorage() {
  static Storage* const storage = MakeMemoryStorage().release();
  return storage;
}

}  // namespace

const StorageTable& Storages() {
  static const auto* const table =
      new StorageTable("storage", {{"file", &ProcessPosixStorage}, {"mem", &ProcessMemoryStorage}});
  return *table;
}

absl::StatusOr<StorageLocation> StorageFor(absl::string_view path, const StorageTable& storages) {
  StorageLocation location{.storage = ProcessPosixStorage(), .path = std::string(path)};
  for (const auto& [scheme, storage] : storages.rows()) {
    absl::string_view rest = path;
    if (!absl::ConsumePrefix(&rest, absl::StrCat(scheme, "://"))) continue;
    location = {.storage = storage(), .path = std::string(rest)};
    break;
  }
  if (location.path.empty()) return absl::InvalidArgumentError(absl::StrCat("the path \"", path, "\" names no file"));
  return location;
}

}  // namespace shardwright
