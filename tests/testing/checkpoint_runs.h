// Saves and loads with ranks as threads, for tests.
#ifndef SHARDWRIGHT_TESTS_TESTING_CHECKPOINT_RUNS_H_
#define SHARDWRIGHT_TESTS_TESTING_CHECKPOINT_RUNS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/tests/testing/state_maker.h"

namespace shardwright::testing {

struct SaveSetup {
  PlacementRule rule = &ReplicatedBox;
  int32_t world_size = 1;
  SaveLayout layout = SaveLayout::kSharded;
  int64_t step = 0;
  uint64_t window_bytes = 4 * 1024 * 1024;
};

// One status per rank.
std::vector<absl::Status> SaveOnRanks(Storage& storage, absl::string_view path, const std::vector<MadeTensor>& tensors,
                                      const SaveSetup& setup);
// The lowest failed rank's status.
absl::Status Save(Storage& storage, absl::string_view path, const std::vector<MadeTensor>& tensors,
                  const SaveSetup& setup = {});

struct LoadSetup {
  PlacementRule rule = &ReplicatedBox;
  int32_t world_size = 1;
  LoadOptions options;
  uint64_t window_bytes = 8 * 1024 * 1024;
  uint64_t budget_bytes = MemoryBudget::kUnlimited;
  std::function<void(LoadView&)> edit;  // perhaps null
};

// What the ranks hold afterwards; poisoned beforehand.
struct Loaded {
  std::vector<absl::Status> statuses;
  std::vector<std::unique_ptr<RankState>> states;
  std::vector<LoadReport> reports;
  std::vector<uint64_t> budget_peaks;
  std::vector<RankTotals> totals;  // predicted

  absl::Status status() const;
};
inline constexpr char kPoison = '\x5a';

// Loads everything that `wanted` says. Fails where the checkpoint does not match.
Loaded Load(Storage& storage, absl::string_view path, const std::vector<MadeTensor>& wanted,
            const LoadSetup& setup = {});

// OK if the checkpoint verifies in full and loads bit-equal to `tensors`.
absl::Status CheckHolds(Storage& storage, absl::string_view path, const std::vector<MadeTensor>& tensors);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_TESTING_CHECKPOINT_RUNS_H_
