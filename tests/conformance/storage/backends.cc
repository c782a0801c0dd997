#include "shardwright/tests/conformance/storage/backends.h"

#include <utility>

#include "shardwright/core/storage/memory.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/tests/testing/temp_folder.h"

namespace shardwright::testing {
namespace {

class PosixUnderTest : public StorageUnderTest {
 public:
  Storage& storage() override { return *storage_; }
  std::string root() const override { return folder_.path(); }

 private:
  const TempFolder folder_;
  const std::unique_ptr<Storage> storage_ = MakePosixStorage();
};

class MemoryUnderTest : public StorageUnderTest {
 public:
  Storage& storage() override { return *storage_; }
  std::string root() const override { return ""; }

 private:
  const std::unique_ptr<Storage> storage_ = MakeMemoryStorage();
};

}  // namespace

const std::vector<StorageBackend>& StorageBackends() {
  static const auto* const backends = new std::vector<StorageBackend>{
      {"Posix", [] { return std::make_unique<PosixUnderTest>(); }},
      {"Memory", [] { return std::make_unique<MemoryUnderTest>(); }},
  };
  return *backends;
}

}  // namespace shardwright::testing
