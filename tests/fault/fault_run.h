// A run that has one checkpoint and saves another on a storage that fails; and what must be true afterwards.
#ifndef SHARDWRIGHT_TESTS_FAULT_FAULT_RUN_H_
#define SHARDWRIGHT_TESTS_FAULT_FAULT_RUN_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/fault_storage.h"
#include "shardwright/tests/testing/state_maker.h"

namespace shardwright::testing {

// What is saved over what.
struct FaultCase {
  const char* name;
  SaveLayout layout = SaveLayout::kSharded;
  int32_t world_size = 1;
  bool same_step = false;  // the step is saved again, by other ranks than before
  friend std::ostream& operator<<(std::ostream& out, const FaultCase& c) { return out << c.name; }
};

// Both layouts, 1 and 3 ranks, the next step and the same one again.
std::vector<FaultCase> AllFaultCases();
std::string FaultCaseName(const ::testing::TestParamInfo<FaultCase>& info);

// runs/r on memory, with an old checkpoint that `last` points to; everything of it durable.
class FaultRun {
 public:
  explicit FaultRun(const FaultCase& c);

  // What a trainer does at a checkpoint: find a name, save, point `last` at it. One status per rank.
  std::vector<absl::Status> SaveNext(Storage& storage);

  Storage& base() { return *base_; }
  const std::string& directory() const { return directory_; }
  const std::string& old_path() const { return old_path_; }
  const std::string& new_path() const { return new_path_; }
  const std::vector<MadeTensor>& old_tensors() const { return old_; }
  const std::vector<MadeTensor>& new_tensors() const { return new_; }

  // Fails the test unless a next process would resume from the old checkpoint or, as `may_be_new` allows, the new one,
  // in full and bit-equal. Says which: true for the new one.
  bool ExpectResumes(bool may_be_old, bool may_be_new);
  // Fails the test unless `last` leads to an intact checkpoint.
  void ExpectLastIsIntact();
  // Fails the test unless the next process can clean up, save, and resume from that.
  void ExpectALaterSaveWorks();
  // Names in the run's directory that are temporaries.
  std::vector<std::string> Temporaries();

 private:
  FaultCase case_;
  std::unique_ptr<Storage> base_;
  std::string directory_ = "runs/r";
  std::string old_path_, new_path_;
  std::vector<MadeTensor> old_, new_;
};

// How many operations SaveNext makes without faults.
uint64_t CountOperations(const FaultCase& c);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_FAULT_FAULT_RUN_H_
