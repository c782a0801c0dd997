// The storages that the conformance tests run over.
#ifndef SHARDWRIGHT_TESTS_CONFORMANCE_STORAGE_BACKENDS_H_
#define SHARDWRIGHT_TESTS_CONFORMANCE_STORAGE_BACKENDS_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/core/storage/storage.h"

namespace shardwright::testing {

// A storage with an empty folder in it.
class StorageUnderTest {
 public:
  virtual ~StorageUnderTest() = default;
  virtual Storage& storage() = 0;
  virtual std::string root() const = 0;
};

struct StorageBackend {
  std::string name;
  std::function<std::unique_ptr<StorageUnderTest>()> make;
};

const std::vector<StorageBackend>& StorageBackends();

// Base of the conformance suites.
class StorageConformance : public ::testing::TestWithParam<StorageBackend> {
 protected:
  StorageConformance() : under_test_(GetParam().make()), storage_(under_test_->storage()) {}

  // A path in the empty folder.
  std::string At(const std::string& name) const { return under_test_->root() + "/" + name; }

  const std::unique_ptr<StorageUnderTest> under_test_;
  Storage& storage_;
};

inline std::string BackendName(const ::testing::TestParamInfo<StorageBackend>& info) {
  return info.param.name;
}

}  // namespace shardwright::testing

#define SW_INSTANTIATE_STORAGE_SUITE(suite) \
  INSTANTIATE_TEST_SUITE_P(All, suite, ::testing::ValuesIn(StorageBackends()), BackendName)

#endif  // SHARDWRIGHT_TESTS_CONFORMANCE_STORAGE_BACKENDS_H_
