// Runs of a trainer over a FakeStrategy: ranks are threads, the run directory is in memory.
#ifndef SHARDWRIGHT_TESTS_CORE_TRAINER_TRAINER_HARNESS_H_
#define SHARDWRIGHT_TESTS_CORE_TRAINER_TRAINER_HARNESS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/storage/storage.h"
#include "shardwright/core/trainer/trainer.h"
#include "shardwright/tests/testing/fake_strategy.h"

namespace shardwright::testing {

inline constexpr int64_t kSampleTokens = 5;
inline constexpr int64_t kSamples = 37;  // so that epochs end inside of steps
inline constexpr char kRunDirectory[] = "runs/demo";

// Records losses by step, and answers with the wishes that were set for a step.
class ScriptedCallback : public Callback {
 public:
  struct Script {
    std::map<int64_t, Action> at_step;
    Action at_end;
    std::vector<std::string> standing_links;
    bool may_act = true;
  };
  ScriptedCallback(Script script, std::map<int64_t, double>* losses, std::vector<SavedCheckpoint>* saved)
      : script_(std::move(script)), losses_(losses), saved_(saved) {}

  absl::string_view name() const override { return "scripted"; }
  bool MayActAt(int64_t step) const override { return script_.may_act; }
  Action OnStepEnd(const TrainState& state) override;
  Action OnTrainEnd(const TrainState& state) override;
  void OnSaved(const SavedCheckpoint& saved) override;
  std::vector<std::string> StandingLinks() const override { return script_.standing_links; }
  Value::Map SaveState() const override { return {{"steps", steps_}}; }
  absl::Status LoadState(const Value::Map& state) override;

 private:
  Script script_;
  std::map<int64_t, double>* losses_;    // Not owned; null on ranks other than 0.
  std::vector<SavedCheckpoint>* saved_;  // Not owned; null on ranks other than 0.
  int64_t steps_ = 0;                    // over all parts of a run
};

struct RunSpec {
  int32_t world = 1;
  TrainerOptions options;
  FakeStrategyOptions strategy;
  ScriptedCallback::Script script;
  // Of each rank, behind the scripted one.
  std::function<std::vector<std::unique_ptr<Callback>>()> more_callbacks;
  std::string text;  // empty: kSamples samples that hold their own numbers

  RunSpec() {
    options.run_directory = kRunDirectory;
    options.batch_size = 6;
    options.max_steps = 9;
    options.resume = "auto";
  }
};

struct RunOutcome {
  std::vector<absl::StatusOr<TrainResult>> results;  // by rank
  std::vector<std::string> notes;                    // rank 0's
  std::map<int64_t, double> losses;                  // by step, as rank 0's callback saw them
  std::vector<SavedCheckpoint> saved;
  std::vector<int64_t> sample_ids;
  FakeRecord::Tensors state;  // at the end
  int64_t captures = 0;
  CommCounters control;  // rank 0's

  const absl::StatusOr<TrainResult>& result() const { return results.front(); }
  bool ok() const;
  // The notes, one a line.
  std::string AllNotes() const;
};

RunOutcome Train(Storage& storage, const RunSpec& spec);

// The same as one run: what `second` did after `first`.
RunOutcome Joined(const RunOutcome& first, const RunOutcome& second);

// Names of the run's checkpoints, newest first.
std::vector<std::string> CheckpointsOf(Storage& storage);
// Flips one bit in the middle of a file.
void FlipBit(Storage& storage, const std::string& path);
// The first file of a checkpoint whose name starts with `prefix`.
std::string FileOf(Storage& storage, const std::string& checkpoint, const std::string& prefix);

}  // namespace shardwright::testing

#endif  // SHARDWRIGHT_TESTS_CORE_TRAINER_TRAINER_HARNESS_H_
