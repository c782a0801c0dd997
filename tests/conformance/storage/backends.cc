#include "shardwright/tests/conformance/storage/backends.h"

#include <utility>

#include "shardwright/core/storage/memory.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/tests/testing/fault_storage.h"
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

// Without faults it must not be told from what it wraps.
class FaultUnderTest : public StorageUnderTest {
 public:
  explicit FaultUnderTest(std::unique_ptr<StorageUnderTest> base) : base_(std::move(base)), faults_(base_->storage()) {}
  Storage& storage() override { return faults_; }
  std::string root() const override { return base_->root(); }

 private:
  const std::unique_ptr<StorageUnderTest> base_;
  FaultStorage faults_;
};

}  // namespace

const std::vector<StorageBackend>& StorageBackends() {
  static const auto* const backends = new std::vector<StorageBackend>{
      {"Posix", [] { return std::make_unique<PosixUnderTest>(); }},
      {"Memory", [] { return std::make_unique<MemoryUnderTest>(); }},
      {"FaultOverPosix", [] { return std::make_unique<FaultUnderTest>(std::make_unique<PosixUnderTest>()); }},
      {"FaultOverMemory", [] { return std::make_unique<FaultUnderTest>(std::make_unique<MemoryUnderTest>()); }},
  };
  return *backends;
}

}  // namespace shardwright::testing
