// One model under one strategy on a device: trained, saved, loaded, moved to the CPU and back, and measured.
#ifndef SHARDWRIGHT_TESTS_GPU_DEVICE_TRIAL_H_
#define SHARDWRIGHT_TESTS_GPU_DEVICE_TRIAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/device/device.h"
#include "shardwright/core/module/module.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/strategy/strategy.h"

namespace shardwright::testing {

struct TrialCase {
  std::string model;  // a row of BuiltinModels
  ModelOptions options;
  std::string strategy;  // a row of BuiltinStrategies
  DType compute_dtype = DType::kFloat32;
  int64_t samples = 8;  // of a step
  int64_t steps = 20;   // that are timed
};

struct TrialResult {
  uint64_t state_bytes = 0;
  double steps_per_second = 0;
  double save_bytes_per_second = 0;
  double load_bytes_per_second = 0;
  uint64_t transient_bytes = 0;  // the largest that the memory budget handed out
  uint64_t grown_bytes = 0;      // how far the process's resident memory rose above what it was, during a save or load
  std::vector<std::string> problems;  // "resumed losses differ: ..."; empty: all was as it must be
};

// Works in the folder `folder` of the storage, which it removes. `device` may be the CPU: a trial of the trial.
absl::StatusOr<TrialResult> RunTrial(const TrialCase& trial, const Device& device, Storage& storage,
                                     const std::string& folder);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_GPU_DEVICE_TRIAL_H_
