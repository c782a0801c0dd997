// The system calls that move and keep bytes, as values: tests put in calls that are interrupted, transfer little, or
// fail.
#ifndef SHARDWRIGHT_CORE_STORAGE_POSIX_CALLS_H_
#define SHARDWRIGHT_CORE_STORAGE_POSIX_CALLS_H_

#include <fcntl.h>
#include <unistd.h>

#include <functional>
#include <memory>

#include "shardwright/core/storage/storage.h"

namespace shardwright {

struct PosixCalls {
  std::function<ssize_t(int fd, void* data, size_t bytes, off_t offset)> pread = ::pread;
  std::function<ssize_t(int fd, const void* data, size_t bytes, off_t offset)> pwrite = ::pwrite;
  std::function<int(int fd, int mode, off_t offset, off_t bytes)> fallocate = ::fallocate;
  std::function<int(int fd)> fsync = ::fsync;
  std::function<int(int fd)> close = ::close;
};

// MakePosixStorage() over these calls.
std::unique_ptr<Storage> MakePosixStorageWith(PosixCalls calls);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STORAGE_POSIX_CALLS_H_
