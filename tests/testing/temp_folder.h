// A folder of its own for one test, removed with it.
//
//   TempFolder folder;
//   storage->CreateFile(folder / "x");
#ifndef SHARDWRIGHT_TESTS_TESTING_TEMP_FOLDER_H_
#define SHARDWRIGHT_TESTS_TESTING_TEMP_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/base/check.h"

namespace shardwright::testing {

class TempFolder {
 public:
  // In `parent`: the test's own temporary folder, unless it must be one that other users can reach ("/tmp").
  explicit TempFolder(absl::string_view parent = ::testing::TempDir())
      : path_(absl::StrCat(parent, "/shardwright-XXXXXX")) {
    SW_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

 private:
  std::string path_;
};

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_TESTING_TEMP_FOLDER_H_
