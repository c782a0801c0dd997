// Every storage: opening, reading, writing, reserving, syncing and closing files; whole-file helpers; counters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/tests/conformance/storage/backends.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

absl::Span<const char> Bytes(absl::string_view text) {
  return {text.data(), text.size()};
}

class FilesConformance : public StorageConformance {
 protected:
  absl::StatusOr<std::string> Read(const std::string& name) { return ReadWholeFile(storage_, At(name), kPlenty); }
  void Write(const std::string& name, absl::string_view text) {
    ASSERT_THAT(WriteWholeFile(storage_, At(name), Bytes(text)), IsOk());
  }
};

TEST_P(FilesConformance, WhatIsWrittenIsRead) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.CreateFile(At("f")));
  EXPECT_THAT(file->WriteAt(0, Bytes("hello ")), IsOk());
  EXPECT_THAT(file->WriteAt(6, Bytes("world")), IsOk());
  EXPECT_THAT(file->Sync(), IsOk());
  EXPECT_THAT(file->Close(), IsOk());
  EXPECT_THAT(Read("f"), IsOkAndHolds("hello world"));
}

TEST_P(FilesConformance, AGapReadsAsZeros) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.CreateFile(At("f")));
  EXPECT_THAT(file->WriteAt(3, Bytes("x")), IsOk());
  EXPECT_THAT(Read("f"), IsOkAndHolds(std::string("\0\0\0x", 4)));
}

TEST_P(FilesConformance, NothingIsANumberOfBytesToo) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.CreateFile(At("f")));
  EXPECT_THAT(file->WriteAt(100, {}), IsOk());
  EXPECT_THAT(file->Allocate(0), IsOk());
  EXPECT_THAT(Read("f"), IsOkAndHolds(""));
  SW_ASSERT_OK_AND_ASSIGN(const auto reader, storage_.OpenRead(At("f")));
  EXPECT_THAT(reader->ReadAt(0, {}), IsOk());
}

TEST_P(FilesConformance, CreateRefusesATakenName) {
  Write("file", "old");
  ASSERT_THAT(storage_.CreateDirectory(At("folder")), IsOk());
  ASSERT_THAT(storage_.Symlink("nowhere", At("link")), IsOk());
  for (const char* taken : {"file", "folder", "link"}) {
    EXPECT_THAT(storage_.CreateFile(At(taken)),
                StatusIs(absl::StatusCode::kAlreadyExists, AllOf(HasSubstr("create"), HasSubstr(At(taken)))));
  }
  EXPECT_THAT(Read("file"), IsOkAndHolds("old"));
}

TEST_P(FilesConformance, AbsenceIsNotFoundAndNamesThePath) {
  const auto not_found = [&](const std::string& name) {
    return StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr(At(name)), HasSubstr("No such file or directory")));
  };
  EXPECT_THAT(storage_.OpenRead(At("no")), not_found("no"));
  EXPECT_THAT(storage_.OpenWrite(At("no")), not_found("no"));
  EXPECT_THAT(storage_.CreateFile(At("no/f")), not_found("no/f"));
  EXPECT_THAT(storage_.OpenRead(""), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(FilesConformance, ADirectoryIsNoFile) {
  ASSERT_THAT(storage_.CreateDirectory(At("d")), IsOk());
  EXPECT_THAT(storage_.OpenRead(At("d")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("d"))));
  EXPECT_THAT(storage_.OpenWrite(At("d")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("d"))));
  Write("f", "x");
  EXPECT_THAT(storage_.OpenRead(At("f/g")), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(At("f/g"))));
}

TEST_P(FilesConformance, OpenWriteKeepsWhatIsThere) {
  Write("f", "0123456789");
  {
    SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.OpenWrite(At("f")));
    EXPECT_THAT(file->WriteAt(2, Bytes("ab")), IsOk());
    EXPECT_THAT(file->WriteAt(9, Bytes("cd")), IsOk());
  }
  EXPECT_THAT(Read("f"), IsOkAndHolds("01ab45678cd"));
}

TEST_P(FilesConformance, ReadingBeyondTheEndIsDataLossWithPlaceExpectedAndGot) {
  Write("f", "0123456789");
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.OpenRead(At("f")));
  EXPECT_EQ(file->size_bytes(), 10u);
  std::string out(8, '\0');
  EXPECT_THAT(file->ReadAt(4, absl::MakeSpan(out)),
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr(At("f")), HasSubstr("expected 8 bytes"),
                                                          HasSubstr("offset 4"), HasSubstr("got 6"))));
  EXPECT_THAT(file->ReadAt(10, absl::MakeSpan(out)), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("got 0")));
  EXPECT_THAT(file->ReadAt(UINT64_MAX, absl::MakeSpan(out)), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(file->ReadAt(10, {}), IsOk());
}

TEST_P(FilesConformance, OffsetsBeyondWhatAFileCanHaveAreRefused) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.CreateFile(At("f")));
  EXPECT_THAT(file->WriteAt(UINT64_MAX, Bytes("x")), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(file->WriteAt(INT64_MAX, Bytes("x")), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(file->Allocate(UINT64_MAX), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Read("f"), IsOkAndHolds(""));
}

TEST_P(FilesConformance, AllocateSetsTheSizeAndNeverShrinks) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.CreateFile(At("f")));
  ASSERT_THAT(file->WriteAt(0, Bytes("abc")), IsOk());
  EXPECT_THAT(file->Allocate(5), IsOk());
  EXPECT_THAT(Read("f"), IsOkAndHolds(std::string("abc\0\0", 5)));
  EXPECT_THAT(file->Allocate(2), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo info, storage_.Info(At("f")));
  EXPECT_EQ(info.size_bytes, 5u);
  EXPECT_GE(info.allocated_bytes, 5u);
}

TEST_P(FilesConformance, EveryCallAfterCloseIsRefused) {
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.CreateFile(At("f")));
  ASSERT_THAT(file->Close(), IsOk());
  const auto closed = StatusIs(absl::StatusCode::kFailedPrecondition, AllOf(HasSubstr(At("f")), HasSubstr("closed")));
  EXPECT_THAT(file->WriteAt(0, Bytes("x")), closed);
  EXPECT_THAT(file->Allocate(1), closed);
  EXPECT_THAT(file->Sync(), closed);
  EXPECT_THAT(file->Close(), closed);
}

TEST_P(FilesConformance, SeveralWritersFillOneFile) {
  constexpr int kWriters = 4;
  constexpr size_t kPiece = 10'007;
  SW_ASSERT_OK_AND_ASSIGN(const auto created, storage_.CreateFile(At("f")));
  std::vector<std::thread> writers;
  writers.reserve(kWriters);
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.OpenWrite(At("f")));
      ASSERT_THAT(file->Allocate(kWriters * kPiece), IsOk());
      const std::string piece(kPiece, static_cast<char>('a' + w));
      ASSERT_THAT(file->WriteAt(w * kPiece, Bytes(piece)), IsOk());
      ASSERT_THAT(file->Sync(), IsOk());
      ASSERT_THAT(file->Close(), IsOk());
    });
  }
  for (std::thread& writer : writers) writer.join();
  SW_ASSERT_OK_AND_ASSIGN(const std::string all, Read("f"));
  ASSERT_EQ(all.size(), kWriters * kPiece);
  for (int w = 0; w < kWriters; ++w) {
    EXPECT_EQ(all.substr(w * kPiece, kPiece), std::string(kPiece, static_cast<char>('a' + w)));
  }
}

TEST_P(FilesConformance, RandomWritesAgreeWithAString) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.CreateFile(At("f")));
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    const size_t offset = random() % 5000;
    const std::string piece(random() % 300, static_cast<char>(random()));
    if (!piece.empty()) expected.resize(std::max(expected.size(), offset + piece.size()));
    if (!piece.empty()) expected.replace(offset, piece.size(), piece);
    ASSERT_THAT(file->WriteAt(offset, Bytes(piece)), IsOk());
  }
  EXPECT_THAT(Read("f"), IsOkAndHolds(expected));
}

TEST_P(FilesConformance, AnOpenFileOutlivesItsName) {
  Write("f", "kept");
  SW_ASSERT_OK_AND_ASSIGN(const auto reader, storage_.OpenRead(At("f")));
  SW_ASSERT_OK_AND_ASSIGN(const auto writer, storage_.OpenWrite(At("f")));
  ASSERT_THAT(storage_.RemoveFile(At("f")), IsOk());
  EXPECT_THAT(writer->WriteAt(0, Bytes("K")), IsOk());
  std::string out(4, '\0');
  EXPECT_THAT(reader->ReadAt(0, absl::MakeSpan(out)), IsOk());
  EXPECT_EQ(out, "Kept");
}

TEST_P(FilesConformance, ReadWholeFileHasALimit) {
  Write("f", "12345");
  EXPECT_THAT(ReadWholeFile(storage_, At("f"), 5), IsOkAndHolds("12345"));
  EXPECT_THAT(ReadWholeFile(storage_, At("f"), 4),
              StatusIs(absl::StatusCode::kResourceExhausted, AllOf(HasSubstr(At("f")), HasSubstr("5 bytes"))));
}

TEST_P(FilesConformance, WriteWholeFileLeavesATakenNameAlone) {
  Write("f", "old");
  EXPECT_THAT(WriteWholeFile(storage_, At("f"), Bytes("new")), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(Read("f"), IsOkAndHolds("old"));
}

TEST_P(FilesConformance, CountsBytesAndCalls) {
  const StorageCounters& counters = storage_.counters();
  const uint64_t written = counters.bytes_written, writes = counters.writes, syncs = counters.syncs;
  const uint64_t read = counters.bytes_read, reads = counters.reads;
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage_.CreateFile(At("f")));
  ASSERT_THAT(file->WriteAt(0, Bytes("0123456789")), IsOk());
  ASSERT_THAT(file->Sync(), IsOk());
  ASSERT_THAT(storage_.SyncDirectory(At(".")), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto reader, storage_.OpenRead(At("f")));
  std::string out(4, '\0');
  ASSERT_THAT(reader->ReadAt(1, absl::MakeSpan(out)), IsOk());
  EXPECT_EQ(counters.bytes_written - written, 10u);
  EXPECT_EQ(counters.writes - writes, 1u);
  EXPECT_EQ(counters.syncs - syncs, 2u);
  EXPECT_EQ(counters.bytes_read - read, 4u);
  EXPECT_EQ(counters.reads - reads, 1u);
}

SW_INSTANTIATE_STORAGE_SUITE(FilesConformance);

}  // namespace
}  // namespace shardwright::testing
