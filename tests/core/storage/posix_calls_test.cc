// The POSIX storage against system calls that are interrupted, move little, or fail.
#include "shardwright/core/storage/posix_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "shardwright/tests/testing/status_matchers.h"
#include "shardwright/tests/testing/temp_folder.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

int Fail(int error_number) {
  errno = error_number;
  return -1;
}

// A function that is interrupted every other time.
template <typename Function>
auto Interrupted(Function function) {
  return [function, interrupt = false](auto... arguments) mutable -> decltype(function(arguments...)) {
    interrupt = !interrupt;
    return interrupt ? Fail(EINTR) : function(arguments...);
  };
}

class PosixCallsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Storage> Make() { return MakePosixStorageWith(calls_); }
  absl::StatusOr<std::string> Read(Storage& storage) { return ReadWholeFile(storage, path_, 1 << 20); }

  const TempFolder folder_;
  const std::string path_ = folder_ / "f";
  PosixCalls calls_;
};

TEST_F(PosixCallsTest, InterruptedCallsAreMadeAgain) {
  calls_.pread = Interrupted(::pread);
  calls_.pwrite = Interrupted(::pwrite);
  calls_.fsync = Interrupted(::fsync);
  calls_.fallocate = Interrupted(::fallocate);
  const std::unique_ptr<Storage> storage = Make();
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->CreateFile(path_));
  EXPECT_THAT(file->Allocate(5), IsOk());
  EXPECT_THAT(file->WriteAt(0, {"hello", 5}), IsOk());
  EXPECT_THAT(file->Sync(), IsOk());
  EXPECT_THAT(file->Close(), IsOk());
  EXPECT_THAT(storage->SyncDirectory(folder_.path()), IsOk());
  EXPECT_THAT(Read(*storage), IsOkAndHolds("hello"));
}

TEST_F(PosixCallsTest, ShortTransfersAreContinued) {
  calls_.pread = [](int fd, void* data, size_t bytes, off_t at) {
    return ::pread(fd, data, std::min<size_t>(bytes, 3), at);
  };
  calls_.pwrite = [](int fd, const void* data, size_t bytes, off_t at) {
    return ::pwrite(fd, data, std::min<size_t>(bytes, 2), at);
  };
  const std::unique_ptr<Storage> storage = Make();
  ASSERT_THAT(WriteWholeFile(*storage, path_, {"hello world", 11}), IsOk());
  EXPECT_THAT(Read(*storage), IsOkAndHolds("hello world"));
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->OpenRead(path_));
  std::string out(8, '\0');
  EXPECT_THAT(file->ReadAt(6, absl::MakeSpan(out)), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("got 5")));
}

TEST_F(PosixCallsTest, AFullDiskSaysHowFarItGot) {
  calls_.pwrite = [](int fd, const void* data, size_t bytes, off_t at) -> ssize_t {
    return at < 4 ? ::pwrite(fd, data, std::min<size_t>(bytes, 4 - at), at) : Fail(ENOSPC);
  };
  const std::unique_ptr<Storage> storage = Make();
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->CreateFile(path_));
  EXPECT_THAT(file->WriteAt(1, {"hello", 5}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr(path_), HasSubstr("3 of 5 bytes written at offset 1"))));
  EXPECT_EQ(storage->counters().bytes_written, 0u);
}

TEST_F(PosixCallsTest, ADeviceThatTakesNothingIsAnError) {
  calls_.pwrite = [](int, const void*, size_t, off_t) -> ssize_t { return 0; };
  const std::unique_ptr<Storage> storage = Make();
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->CreateFile(path_));
  EXPECT_THAT(file->WriteAt(0, {"x", 1}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(PosixCallsTest, DeviceErrorsAreUnavailable) {
  calls_.pread = [](int, void*, size_t, off_t) -> ssize_t { return Fail(EIO); };
  const std::unique_ptr<Storage> storage = Make();
  ASSERT_THAT(WriteWholeFile(*storage, path_, {"hello", 5}), IsOk());
  EXPECT_THAT(Read(*storage), StatusIs(absl::StatusCode::kUnavailable,
                                       AllOf(HasSubstr("read " + path_), HasSubstr("0 of 5 bytes read at offset 0"))));
}

TEST_F(PosixCallsTest, WhereNothingCanBeReservedTheSizeIsSet) {
  for (const int unsupported : {EOPNOTSUPP, ENOSYS}) {
    calls_.fallocate = [=](int, int, off_t, off_t) { return Fail(unsupported); };
    const std::unique_ptr<Storage> storage = Make();
    SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->CreateFile(path_));
    EXPECT_THAT(file->WriteAt(0, {"abc", 3}), IsOk());
    EXPECT_THAT(file->Allocate(5), IsOk());
    EXPECT_THAT(file->Allocate(4), IsOk());
    EXPECT_THAT(Read(*storage), IsOkAndHolds(std::string("abc\0\0", 5)));
    ASSERT_THAT(storage->RemoveFile(path_), IsOk());
  }
}

TEST_F(PosixCallsTest, AllocateReportsPathAndBytes) {
  for (const int full : {ENOSPC, EDQUOT, EFBIG}) {
    calls_.fallocate = [=](int, int, off_t, off_t) { return Fail(full); };
    const std::unique_ptr<Storage> storage = Make();
    SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->CreateFile(path_));
    EXPECT_THAT(file->Allocate(4096), StatusIs(absl::StatusCode::kResourceExhausted,
                                               AllOf(HasSubstr(path_), HasSubstr("4096 bytes, 4.00 KiB"))));
    ASSERT_THAT(storage->RemoveFile(path_), IsOk());
  }
}

// Linux reports a lost write to one fsync and succeeds in the next.
TEST_F(PosixCallsTest, AFailedSyncIsNeverTakenBack) {
  int syncs = 0;
  calls_.fsync = [&](int) { return ++syncs == 1 ? Fail(EIO) : 0; };
  const std::unique_ptr<Storage> storage = Make();
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->CreateFile(path_));
  const auto failed = StatusIs(absl::StatusCode::kUnavailable, HasSubstr("sync " + path_));
  EXPECT_THAT(file->Sync(), failed);
  EXPECT_THAT(file->Sync(), failed);
  EXPECT_THAT(file->Close(), failed);
}

TEST_F(PosixCallsTest, CloseReportsLateErrorsAndClosesOnce) {
  for (const auto& [error_number, code] :
       {std::pair(EDQUOT, absl::StatusCode::kResourceExhausted), std::pair(EIO, absl::StatusCode::kUnavailable),
        std::pair(EINTR, absl::StatusCode::kOk)}) {
    int closes = 0;
    calls_.close = [&, error = error_number](int fd) {
      ++closes;
      ::close(fd);
      return Fail(error);
    };
    const std::unique_ptr<Storage> storage = Make();
    {
      SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->CreateFile(path_));
      EXPECT_EQ(file->Close().code(), code);
    }
    EXPECT_EQ(closes, 1);
    ASSERT_THAT(storage->RemoveFile(path_), IsOk());
  }
}

TEST_F(PosixCallsTest, FileSystemsWithoutDirectorySyncAreFine) {
  calls_.fsync = [](int) { return Fail(EINVAL); };
  EXPECT_THAT(Make()->SyncDirectory(folder_.path()), IsOk());
  calls_.fsync = [](int) { return Fail(EIO); };
  EXPECT_THAT(Make()->SyncDirectory(folder_.path()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(folder_.path())));
}

TEST_F(PosixCallsTest, ALockWhoseTextCannotBeWrittenIsNotHeld) {
  calls_.pwrite = [](int, const void*, size_t, off_t) -> ssize_t { return Fail(ENOSPC); };
  EXPECT_THAT(Make()->Lock(path_, "me"), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(path_)));
  EXPECT_THAT(MakePosixStorageWith({})->Lock(path_, "next"), IsOk());
}

}  // namespace
}  // namespace shardwright
