#include "shardwright/tests/core/trainer/trainer_harness.h"

#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/checkpoint/run_directory.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/data/text_data.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

// Sample i is the four digits of i, and the first digit of the next.
std::string NumberedText() {
  std::string text;
  for (int64_t i = 0; i < kSamples; ++i) absl::StrAppendFormat(&text, "%04d", i);
  return text + ".";
}

std::string WriteText(const std::string& text) {
  const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/", absl::StrJoin(absl::StrSplit(name, '/'), "_"), ".txt");
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

absl::StatusOr<TrainResult> RunRank(Storage& storage, const RunSpec& spec, const std::string& text_path,
                                    CommGroups& groups, FakeRecord& record, RunOutcome& outcome) {
  const bool is_first = groups.rank() == 0;
  MemoryBudget budget;
  const StrategyContext context{&groups, &storage, &budget, World{spec.world, spec.world}};
  FakeStrategyOptions strategy = spec.strategy;
  strategy.seed = spec.options.seed;
  strategy.record = &record;
  std::vector<std::unique_ptr<Callback>> callbacks;
  callbacks.push_back(std::make_unique<ScriptedCallback>(spec.script, is_first ? &outcome.losses : nullptr,
                                                         is_first ? &outcome.saved : nullptr));
  if (spec.more_callbacks != nullptr) {
    for (std::unique_ptr<Callback>& callback : spec.more_callbacks()) callbacks.push_back(std::move(callback));
  }
  absl::StatusOr<std::unique_ptr<TextData>> data = TextData::Open(text_path, kSampleTokens);
  SW_CHECK(data.ok());
  const auto note = [&](absl::string_view line) {
    SW_CHECK(is_first);
    outcome.notes.emplace_back(line);
  };
  Trainer trainer(spec.options, context, std::make_unique<FakeStrategy>(strategy, context), std::move(callbacks),
                  *std::move(data), note);
  absl::StatusOr<TrainResult> result = trainer.Run(std::make_unique<FakeModule>(kSampleTokens));
  if (is_first) outcome.control = groups.control->counters();
  return result;
}

}  // namespace

Action ScriptedCallback::OnStepEnd(const TrainState& state) {
  ++steps_;
  SW_CHECK(steps_ == state.progress.step);
  if (losses_ != nullptr) (*losses_)[state.progress.step] = state.loss;
  const auto found = script_.at_step.find(state.progress.step);
  // Ranks other than 0 wish for nonsense: it must not count.
  if (state.rank != 0) return Action{.save = state.progress.step % 2 == 0, .stop = true};
  return found == script_.at_step.end() ? Action{} : found->second;
}

Action ScriptedCallback::OnTrainEnd(const TrainState& state) {
  return script_.at_end;
}

void ScriptedCallback::OnSaved(const SavedCheckpoint& saved) {
  if (saved_ != nullptr) saved_->push_back(saved);
}

absl::Status ScriptedCallback::LoadState(const Value::Map& state) {
  steps_ = *state.at("steps").get_if<int64_t>();
  return absl::OkStatus();
}

bool RunOutcome::ok() const {
  for (const absl::StatusOr<TrainResult>& one : results) {
    if (!one.ok()) return false;
  }
  return true;
}

std::string RunOutcome::AllNotes() const {
  return absl::StrJoin(notes, "\n");
}

RunOutcome Train(Storage& storage, const RunSpec& spec) {
  RunOutcome outcome;
  FakeRecord record;
  const std::string text_path = WriteText(spec.text.empty() ? NumberedText() : spec.text);
  outcome.results.resize(spec.world, absl::UnknownError("did not run"));
  RunRanks(spec.world, [&](CommGroups& groups) {
    const int32_t rank = groups.rank();
    outcome.results[rank] = RunRank(storage, spec, text_path, groups, record, outcome);
    return outcome.results[rank].status();
  });
  outcome.sample_ids = record.SampleIds();
  outcome.state = record.State();
  outcome.captures = record.captures();
  return outcome;
}

RunOutcome Joined(const RunOutcome& first, const RunOutcome& second) {
  RunOutcome joined = second;
  joined.losses.insert(first.losses.begin(), first.losses.end());
  joined.sample_ids = first.sample_ids;
  joined.sample_ids.insert(joined.sample_ids.end(), second.sample_ids.begin(), second.sample_ids.end());
  return joined;
}

std::vector<std::string> CheckpointsOf(Storage& storage) {
  std::vector<std::string> names;
  const absl::StatusOr<std::vector<RunCheckpoint>> all = ListCheckpoints(storage, kRunDirectory);
  EXPECT_THAT(all, IsOk());
  if (!all.ok()) return names;
  for (const RunCheckpoint& one : *all) names.push_back(BaseName(one.path));
  return names;
}

void FlipBit(Storage& storage, const std::string& path) {
  const absl::StatusOr<FileInfo> info = storage.Info(path);
  SW_CHECK(info.ok());
  absl::StatusOr<std::string> bytes = ReadWholeFile(storage, path, info->size_bytes);
  SW_CHECK(bytes.ok());
  // Near the end: in the tensors of a data file, behind its header.
  const uint64_t place = info->size_bytes - 9;
  const char flipped = static_cast<char>((*bytes)[place] ^ 4);
  absl::StatusOr<std::unique_ptr<WriteFile>> file = storage.OpenWrite(path);
  SW_CHECK(file.ok() && (*file)->WriteAt(place, absl::MakeConstSpan(&flipped, 1)).ok() && (*file)->Close().ok());
}

std::string FileOf(Storage& storage, const std::string& checkpoint, const std::string& prefix) {
  const absl::StatusOr<std::vector<DirectoryEntry>> entries = storage.List(checkpoint);
  SW_CHECK(entries.ok());
  for (const DirectoryEntry& entry : *entries) {
    if (absl::StartsWith(entry.name, prefix)) return JoinPath(checkpoint, entry.name);
  }
  SW_CHECK(false);
  return "";
}

}  // namespace shardwright::testing
