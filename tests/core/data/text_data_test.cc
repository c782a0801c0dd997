#include "shardwright/core/data/text_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class TextDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            absl::StrCat("text_data_", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }

  void Write(const fs::path& name, const std::string& content) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << content;
  }

  absl::StatusOr<std::unique_ptr<TextData>> Open(const fs::path& name, int64_t sample_tokens = 2) {
    return TextData::Open((root_ / name).string(), sample_tokens);
  }

  // The text, taken back from samples of two bytes that start at every byte.
  static std::string TextOf(const TextData& data) {
    Batch batch;
    for (int64_t i = 0; i < data.samples(); ++i) data.Append(i, batch);
    std::string text(1, static_cast<char>(batch.tokens[0]));
    for (size_t i = 1; i < batch.tokens.size(); i += 2) text.push_back(static_cast<char>(batch.tokens[i]));
    return text;
  }

  fs::path root_;
};

TEST_F(TextDataTest, SamplesOverlapByOneByte) {
  Write("a.txt", "abcdefghij");
  SW_ASSERT_OK_AND_ASSIGN(auto data, Open("a.txt", 4));
  EXPECT_EQ(data->samples(), 3);
  EXPECT_EQ(data->bytes(), 10u);
  Batch batch;
  data->Append(0, batch);
  data->Append(2, batch);
  EXPECT_EQ(batch.samples, 2);
  EXPECT_EQ(batch.sample_tokens, 4);
  EXPECT_THAT(batch.tokens, ElementsAre('a', 'b', 'c', 'd', 'g', 'h', 'i', 'j'));
}

TEST_F(TextDataTest, CountsWholeSamplesAtEverySize) {
  for (int64_t tokens = 2; tokens <= 6; ++tokens) {
    for (int64_t bytes = tokens; bytes <= 30; ++bytes) {
      Write("a", std::string(bytes, 'x'));
      SW_ASSERT_OK_AND_ASSIGN(auto data, Open("a", tokens));
      const int64_t last_end = (data->samples() - 1) * (tokens - 1) + tokens;
      EXPECT_LE(last_end, bytes);
      EXPECT_GT(last_end + tokens - 1, bytes) << "one more sample would fit";
    }
  }
}

TEST_F(TextDataTest, BytesAboveAsciiAreTokensOfTheirOwn) {
  Write("a", "\xc3\xa4");
  SW_ASSERT_OK_AND_ASSIGN(auto data, Open("a"));
  Batch batch;
  data->Append(0, batch);
  EXPECT_THAT(batch.tokens, ElementsAre(0xc3, 0xa4));
}

TEST_F(TextDataTest, JoinsFilesSortedByPath) {
  Write("b.txt", "B");
  Write("a/z", "Z");
  Write("a/y/deep", "D");
  Write("a.txt", "A");
  SW_ASSERT_OK_AND_ASSIGN(auto data, Open(""));
  EXPECT_EQ(TextOf(*data), "ADZB");  // '.' sorts before '/'
}

TEST_F(TextDataTest, LeavesOutHiddenFilesIndexesLinksAndBinaries) {
  Write("art", "text");
  Write("art.dat", "index");
  fs::create_symlink("art", root_ / "art.u8");
  fs::create_directory_symlink(".", root_ / "loop");
  Write(".hidden", "hidden");
  Write(".git/config", "hidden");
  Write("b.bin", std::string("bin\0ary", 7));
  Write("late.bin", std::string((1 << 20) + 5, 'x') + '\0');
  Write("folder.dat/kept", "kept");
  SW_ASSERT_OK_AND_ASSIGN(auto data, Open(""));
  EXPECT_EQ(TextOf(*data), "textkept");
}

TEST_F(TextDataTest, TheGivenPathMayBeALinkOrHidden) {
  Write(".store/file", "content");
  fs::create_directory_symlink(".store", root_ / "link");
  SW_ASSERT_OK_AND_ASSIGN(auto folder, Open("link"));
  EXPECT_EQ(TextOf(*folder), "content");
  SW_ASSERT_OK_AND_ASSIGN(auto file, Open(".store/file"));
  EXPECT_EQ(TextOf(*file), "content");
}

TEST_F(TextDataTest, FingerprintFollowsContentAlone) {
  Write("a", "same text");
  Write("folder/b", "same text");
  Write("c", "same texT");
  SW_ASSERT_OK_AND_ASSIGN(auto a, Open("a"));
  SW_ASSERT_OK_AND_ASSIGN(auto b, Open("folder"));
  SW_ASSERT_OK_AND_ASSIGN(auto c, Open("c"));
  EXPECT_EQ(a->fingerprint(), b->fingerprint());
  EXPECT_NE(a->fingerprint(), c->fingerprint());
  EXPECT_THAT(a->fingerprint(), HasSubstr("bytes:9"));
}

TEST_F(TextDataTest, WrongPathIsNotFound) {
  EXPECT_THAT(Open("absent"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
  Write("file", "x");
  EXPECT_THAT(Open("file/below"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("file/below")));
  EXPECT_THAT(TextData::Open("", 2), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
}

TEST_F(TextDataTest, TooLittleTextNamesPathBytesAndNeed) {
  Write("small", "abc");
  EXPECT_THAT(Open("small", 65), StatusIs(absl::StatusCode::kInvalidArgument,
                                          AllOf(HasSubstr("small"), HasSubstr("3 bytes"), HasSubstr("65"))));
  Write("empty", "");
  EXPECT_THAT(Open("empty"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 bytes")));
  fs::create_directories(root_ / "nothing");
  EXPECT_THAT(Open("nothing"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 bytes")));
}

TEST_F(TextDataTest, ABinaryFileAloneIsRefused) {
  Write("model.bin", std::string("\0\1\2", 3));
  EXPECT_THAT(Open("model.bin"),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("model.bin"), HasSubstr("NUL"))));
}

TEST_F(TextDataTest, WhatIsNeitherFileNorDirectoryIsRefused) {
  EXPECT_THAT(TextData::Open("/dev/zero", 2),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a file or a directory")));
}

TEST_F(TextDataTest, ASampleNeedsTwoTokens) {
  Write("a", "abc");
  EXPECT_THAT(Open("a", 1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 2 tokens")));
}

}  // namespace
}  // namespace shardwright
