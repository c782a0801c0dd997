// Which storage a path belongs to.
//
//   SW_ASSIGN_OR_RETURN(StorageLocation run, StorageFor(FLAGS_run_dir));
//   run.storage->List(run.path);
//
// Paths are opaque bytes: "a:b", "x://y" and "50%" are local names. Only a prefix of the table, such as "mem://",
// counts.
#ifndef SHARDWRIGHT_CORE_STORAGE_STORAGES_H_
#define SHARDWRIGHT_CORE_STORAGE_STORAGES_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/base/table.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

struct StorageLocation {
  Storage* storage = nullptr;  // Not owned; lives as long as the process.
  std::string path;            // without the scheme
};

// URI scheme -> the process's storage of that scheme. "file": the local file system. "mem": one tree in this process's
// memory. A program adds rows to a copy.
using StorageTable = Table<std::function<Storage*()>>;
const StorageTable& Storages();

// The storage of `path`: that of its scheme if the table has it, else the local file system.
// kInvalidArgument if nothing is left to name a file.
absl::StatusOr<StorageLocation> StorageFor(absl::string_view path, const StorageTable& storages = Storages());

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STORAGE_STORAGES_H_
