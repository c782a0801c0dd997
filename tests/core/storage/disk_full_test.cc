// Real limits: a file-size limit, and a file system of one mebibyte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/tests/testing/temp_folder.h"

namespace shardwright {
namespace {

using ::shardwright::testing::TempFolder;

constexpr uint64_t kLimit = 1 << 20;
constexpr int kNoRights = 77;

// Runs `work` in a process of its own, whose limits and mounts end with it; its exit code.
int InChild(const std::function<void()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  SW_CHECK(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what.c_str());
  ::_exit(1);
}

void RequireFull(const absl::Status& status, const std::string& path) {
  Require(absl::IsResourceExhausted(status) && absl::StrContains(status.message(), path) &&
              absl::StrContains(status.message(), "bytes"),
          "full, naming path and bytes: " + status.ToString());
}

// One write that does not fit, one reservation, one whole file: each is refused, and nothing is left behind.
void FillUp(Storage& storage, const TempFolder& folder) {
  const std::string too_much(kLimit + 4096, 'x');
  {
    const std::unique_ptr<WriteFile> file = storage.CreateFile(folder / "written").value();
    RequireFull(file->WriteAt(0, too_much), folder / "written");
  }
  Require(storage.RemoveFile(folder / "written").ok(), "removable");
  {
    const std::unique_ptr<WriteFile> file = storage.CreateFile(folder / "reserved").value();
    RequireFull(file->Allocate(too_much.size()), folder / "reserved");
  }
  Require(storage.RemoveFile(folder / "reserved").ok(), "removable");
  RequireFull(WriteWholeFile(storage, folder / "whole", too_much), folder / "whole");
  Require(!Exists(storage, folder / "whole"), "nothing left behind");
  // The space came back.
  Require(WriteWholeFile(storage, folder / "small", {too_much.data(), kLimit / 2}).ok(), "half of it fits");
}

TEST(DiskFull, AFileSizeLimit) {
  const TempFolder folder;
  const int exit_code = InChild([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = kLimit, .rlim_max = kLimit};
    Require(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    FillUp(*MakePosixStorage(), folder);
  });
  EXPECT_EQ(exit_code, 0);
}

TEST(DiskFull, ASmallFileSystem) {
  const TempFolder folder;
  const int exit_code = InChild([&] {
    // In a mount namespace of its own: nobody else sees it, and it ends with this process.
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!mounted) ::_exit(kNoRights);
    const std::unique_ptr<Storage> storage = MakePosixStorage();
    Require(storage->FreeBytes(folder.path()).value() <= kLimit, "a file system of one mebibyte");
    FillUp(*storage, folder);
  });
  if (exit_code == kNoRights) GTEST_SKIP() << "no rights to mount a file system";
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace shardwright
