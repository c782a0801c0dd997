// Storage on the local or a mounted file system.
#ifndef SHARDWRIGHT_CORE_STORAGE_POSIX_H_
#define SHARDWRIGHT_CORE_STORAGE_POSIX_H_

#include <memory>

#include "shardwright/core/storage/storage.h"

namespace shardwright {

// Retries EINTR and short transfers. SIGXFSZ becomes kResourceExhausted if the program ignores that signal.
std::unique_ptr<Storage> MakePosixStorage();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STORAGE_POSIX_H_
