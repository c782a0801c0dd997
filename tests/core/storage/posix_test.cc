// What only a real file system and real processes show.
#include "shardwright/core/storage/posix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/tests/testing/status_matchers.h"
#include "shardwright/tests/testing/temp_folder.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PosixStorageTest : public ::testing::Test {
 protected:
  const TempFolder folder_;
  const std::unique_ptr<Storage> storage_ = MakePosixStorage();
};

// Another process that has done `work` and waits to be killed.
class Child {
 public:
  explicit Child(const std::function<void()>& work) {
    int ready[2];
    SW_CHECK(::pipe(ready) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      work();
      SW_CHECK(::write(ready[1], "x", 1) == 1);
      while (true) ::pause();
    }
    char byte;
    SW_CHECK(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

TEST_F(PosixStorageTest, ALockIsFreedWhenItsHolderDies) {
  {
    const Child child([&] { SW_CHECK(storage_->Lock(folder_ / "lock", "the child").value().release() != nullptr); });
    EXPECT_THAT(storage_->Lock(folder_ / "lock", "parent"),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("held by the child")));
  }
  EXPECT_THAT(storage_->Lock(folder_ / "lock", "parent"), IsOk());
}

TEST_F(PosixStorageTest, AForkedChildDoesNotKeepAReleasedLock) {
  SW_ASSERT_OK_AND_ASSIGN(std::unique_ptr<FileLock> held, storage_->Lock(folder_ / "lock", "parent"));
  const Child child([] {});
  held.reset();
  EXPECT_THAT(storage_->Lock(folder_ / "lock", "next"), IsOk());
}

TEST_F(PosixStorageTest, OpenFilesAreNotInheritedByPrograms) {
  SW_ASSERT_OK_AND_ASSIGN(const auto written, storage_->CreateFile(folder_ / "marker"));
  SW_ASSERT_OK_AND_ASSIGN(const auto read, storage_->OpenRead(folder_ / "marker"));
  SW_ASSERT_OK_AND_ASSIGN(const auto held, storage_->Lock(folder_ / "marker.lock", "me"));
  const std::string command = absl::StrCat("! ls -l /proc/self/fd | grep -q '", folder_.path(), "'");
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(PosixStorageTest, APipeIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(storage_->OpenRead(folder_ / "pipe"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not a regular file")));
  EXPECT_THAT(storage_->OpenWrite(folder_ / "pipe"), StatusIs(absl::StatusCode::kFailedPrecondition));
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo info, storage_->Info(folder_ / "pipe"));
  EXPECT_EQ(info.type, FileType::kOther);
}

TEST_F(PosixStorageTest, ADeviceThatIsFullSaysSo) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_->OpenWrite("/dev/full"));
  EXPECT_THAT(file->WriteAt(0, {"hello", 5}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("/dev/full"), HasSubstr("No space left on device"), HasSubstr("0 of 5 bytes"))));
}

TEST_F(PosixStorageTest, RenameBetweenFileSystemsIsRefused) {
  struct stat here, shm;
  if (::stat("/dev/shm", &shm) != 0 || ::stat(folder_.path().c_str(), &here) != 0 || here.st_dev == shm.st_dev) {
    GTEST_SKIP() << "there is one file system only";
  }
  ASSERT_THAT(WriteWholeFile(*storage_, folder_ / "f", {"x", 1}), IsOk());
  const std::string elsewhere = absl::StrCat("/dev/shm/shardwright-posix-test-", ::getpid());
  EXPECT_THAT(storage_->Rename(folder_ / "f", elsewhere), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(Exists(*storage_, folder_ / "f"));
}

TEST_F(PosixStorageTest, InfoCountsBlocks) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_->CreateFile(folder_ / "sparse"));
  ASSERT_THAT(file->WriteAt(64 << 20, {"x", 1}), IsOk());
  ASSERT_THAT(file->Sync(), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo info, storage_->Info(folder_ / "sparse"));
  EXPECT_EQ(info.size_bytes, (64u << 20) + 1);
  EXPECT_LT(info.allocated_bytes, 1u << 20);
}

TEST_F(PosixStorageTest, AllocateTakesTheBlocks) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_->CreateFile(folder_ / "f"));
  ASSERT_THAT(file->Allocate(1 << 20), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo info, storage_->Info(folder_ / "f"));
  EXPECT_GE(info.allocated_bytes, 1u << 20);
}

// Leaves root's rights for the rest of the child.
void BecomeNobody() {
  if (::geteuid() == 0) SW_CHECK(::setegid(65534) == 0 && ::seteuid(65534) == 0);
}

void Expect(absl::StatusCode code, absl::string_view part, const absl::Status& status) {
  if (status.code() == code && absl::StrContains(status.message(), part)) return;
  std::fprintf(stderr, "got %s\n", status.ToString().c_str());
  ::_exit(1);
}

TEST_F(PosixStorageTest, WhatOneMayNotDoIsPermissionDenied) {
  const TempFolder folder("/tmp");
  ASSERT_THAT(WriteWholeFile(*storage_, folder / "secret", {"x", 1}), IsOk());
  ASSERT_THAT(storage_->CreateDirectory(folder / "closed"), IsOk());
  ASSERT_EQ(::chmod((folder / "secret").c_str(), 0), 0);
  ASSERT_EQ(::chmod((folder / "closed").c_str(), 0555), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const auto work = [&] {
    BecomeNobody();
    Expect(absl::StatusCode::kPermissionDenied, folder / "secret", storage_->OpenRead(folder / "secret").status());
    Expect(absl::StatusCode::kPermissionDenied, folder / "closed/f",
           storage_->CreateFile(folder / "closed/f").status());
    Expect(absl::StatusCode::kPermissionDenied, folder / "closed/d", storage_->CreateDirectories(folder / "closed/d"));
    // What is there already is fine, whoever owns it.
    Expect(absl::StatusCode::kOk, "", storage_->CreateDirectories(folder / "closed"));
    ::_exit(0);
  };
  EXPECT_EXIT(work(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace shardwright
