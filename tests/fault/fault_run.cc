#include "shardwright/tests/fault/fault_run.h"

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/run_directory.h"
#include "shardwright/core/storage/memory.h"

namespace shardwright::testing {
namespace {

std::vector<MadeTensor> StateOfStep(int seed) {
  std::mt19937_64 random(seed);
  return {Make(Meta("w", DType::kFloat32, {50, 40}), random), Make(Meta("b", DType::kBFloat16, {7}), random),
          Make(Meta("s", DType::kFloat32, {}), random), MadeTensor{Meta("tied", DType::kFloat32, {50, 40}), "w", ""},
          Make(StateMeta("w", "exp_avg", DType::kFloat32, {50, 40}), random)};
}

}  // namespace

std::vector<FaultCase> AllFaultCases() {
  return {
      {"sharded_1", SaveLayout::kSharded, 1, false},        {"sharded_3", SaveLayout::kSharded, 3, false},
      {"single_file_1", SaveLayout::kSingleFile, 1, false}, {"single_file_3", SaveLayout::kSingleFile, 3, false},
      {"sharded_1_again", SaveLayout::kSharded, 1, true},   {"single_file_3_again", SaveLayout::kSingleFile, 3, true}};
}

std::string FaultCaseName(const ::testing::TestParamInfo<FaultCase>& info) {
  return info.param.name;
}

FaultRun::FaultRun(const FaultCase& c)
    : case_(c), base_(MakeMemoryStorage()), old_(StateOfStep(1)), new_(StateOfStep(2)) {
  old_path_ = JoinPath(directory_, "step-00000005");
  // Saved again by fewer ranks, or by more: no file of the old one may be taken for one of the new.
  const int32_t old_world = c.same_step ? 4 - c.world_size : c.world_size;
  EXPECT_TRUE(Save(*base_, old_path_, old_, {.rule = &RowShardBox, .world_size = old_world, .step = 5}).ok());
  EXPECT_TRUE(PointLink(*base_, directory_, "last", old_path_).ok());
}

std::vector<absl::Status> FaultRun::SaveNext(Storage& storage) {
  const int64_t step = case_.same_step ? 5 : 10;
  const absl::StatusOr<std::string> path = FreshCheckpointPath(storage, directory_, step);
  if (!path.ok()) return std::vector<absl::Status>(case_.world_size, path.status());
  new_path_ = *path;
  std::vector<absl::Status> statuses =
      SaveOnRanks(storage, *path, new_,
                  {.rule = &RowShardBox, .world_size = case_.world_size, .layout = case_.layout, .step = step});
  if (statuses[0].ok()) {
    const absl::Status linked = PointLink(storage, directory_, "last", *path);
    if (!linked.ok()) statuses.assign(statuses.size(), linked);
  }
  return statuses;
}

bool FaultRun::ExpectResumes(bool may_be_old, bool may_be_new) {
  const absl::StatusOr<ResumeChoice> choice = FindResumeCheckpoint(*base_, directory_);
  EXPECT_TRUE(choice.ok()) << choice.status();
  if (!choice.ok()) return false;
  EXPECT_TRUE(choice->skipped.empty()) << absl::StrJoin(choice->skipped, "; ");
  const bool is_new = choice->path == new_path_;
  EXPECT_TRUE(is_new ? may_be_new : may_be_old) << choice->path;
  EXPECT_EQ(choice->path, is_new ? new_path_ : old_path_);
  const absl::Status held = CheckHolds(*base_, choice->path, is_new ? new_ : old_);
  EXPECT_TRUE(held.ok()) << held;
  // Whatever happened to the new one, the old one is as it was.
  const absl::Status old_held = CheckHolds(*base_, old_path_, old_);
  EXPECT_TRUE(old_held.ok()) << old_held;
  return is_new;
}

void FaultRun::ExpectLastIsIntact() {
  const absl::StatusOr<std::string> target = base_->ReadLink(JoinPath(directory_, "last"));
  EXPECT_TRUE(target.ok()) << target.status();
  if (!target.ok()) return;
  const std::string path = JoinPath(directory_, *target);
  EXPECT_TRUE(path == old_path_ || path == new_path_) << path;
  const absl::Status held = CheckHolds(*base_, path, path == old_path_ ? old_ : new_);
  EXPECT_TRUE(held.ok()) << held;
}

void FaultRun::ExpectALaterSaveWorks() {
  EXPECT_TRUE(RemovePartials(*base_, directory_).ok());
  EXPECT_TRUE(Temporaries().empty());
  const std::vector<absl::Status> statuses = SaveNext(*base_);
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(ExpectResumes(/*may_be_old=*/false, /*may_be_new=*/true));
}

std::vector<std::string> FaultRun::Temporaries() {
  std::vector<std::string> names;
  const absl::StatusOr<std::vector<DirectoryEntry>> entries = base_->List(directory_);
  EXPECT_TRUE(entries.ok()) << entries.status();
  if (!entries.ok()) return names;
  for (const DirectoryEntry& entry : *entries) {
    if (absl::StartsWith(entry.name, ".tmp")) names.push_back(entry.name);
  }
  return names;
}

uint64_t CountOperations(const FaultCase& c) {
  FaultRun run(c);
  FaultStorage storage(run.base());
  for (const absl::Status& status : run.SaveNext(storage)) EXPECT_TRUE(status.ok()) << status;
  return storage.operations();
}

}  // namespace shardwright::testing
