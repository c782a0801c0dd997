#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/comm/thread_communicator.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/format/safetensors/header.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/fault_storage.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::AwkwardTensors;
using ::shardwright::testing::CheckHolds;
using ::shardwright::testing::FaultKind;
using ::shardwright::testing::FaultStorage;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::Make;
using ::shardwright::testing::Meta;
using ::shardwright::testing::RankState;
using ::shardwright::testing::Save;
using ::shardwright::testing::SaveOnRanks;
using ::shardwright::testing::SaveSetup;
using ::shardwright::testing::StatusIs;
using ::shardwright::testing::StorageCall;
using ::shardwright::testing::ToSave;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(Storage& storage, absl::string_view path) {
  std::vector<std::string> names;
  const auto entries = storage.List(path).value();
  for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
  return names;
}

TEST(SaveTest, FilesOfBothLayouts) {
  const auto storage = MakeMemoryStorage();
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  ASSERT_THAT(Save(*storage, "run/a", tensors, {.rule = &RowShardBox, .world_size = 2}), IsOk());
  EXPECT_THAT(Names(*storage, "run/a"),
              ElementsAre("manifest.pb", "model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors",
                          "optimizer-00000-of-00002.safetensors", "optimizer-00001-of-00002.safetensors"));
  ASSERT_THAT(Save(*storage, "run/b", tensors, {.world_size = 2, .layout = SaveLayout::kSingleFile}), IsOk());
  EXPECT_THAT(Names(*storage, "run/b"), ElementsAre("manifest.pb", "model.safetensors", "optimizer.safetensors"));
  EXPECT_THAT(Names(*storage, "run"), ElementsAre("a", "b"));
}

TEST(SaveTest, DataFilesAreWholeSafetensorsFiles) {
  const auto storage = MakeMemoryStorage();
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  ASSERT_THAT(Save(*storage, "c", tensors, {.rule = &RowShardBox, .world_size = 3, .layout = SaveLayout::kSingleFile}),
              IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto file, storage->OpenRead("c/model.safetensors"));
  SW_ASSERT_OK_AND_ASSIGN(const auto opened, safetensors::ReadHeader(*file, "c/model.safetensors"));
  for (const safetensors::Entry& entry : opened.header.entries) {
    const auto made = std::find_if(tensors.begin(), tensors.end(),
                                   [&](const MadeTensor& tensor) { return tensor.meta.name == entry.name; });
    ASSERT_NE(made, tensors.end()) << entry.name;
    EXPECT_EQ(entry.shape, made->meta.shape);
    std::string bytes(entry.end_bytes - entry.begin_bytes, '\0');
    ASSERT_THAT(file->ReadAt(opened.data_begin_bytes + entry.begin_bytes, absl::MakeSpan(bytes)), IsOk());
    EXPECT_EQ(bytes, made->bytes) << entry.name;
  }
}

TEST(SaveTest, ContentIsKept) {
  const auto storage = MakeMemoryStorage();
  ASSERT_THAT(Save(*storage, "c", AwkwardTensors(), {.world_size = 3, .step = 7}), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "c"));
  EXPECT_EQ(manifest->data().progress, (TrainingProgress{7, 0, 56}));
  EXPECT_EQ(manifest->data().topology.strategy, "test");
  EXPECT_EQ(manifest->data().extras.at("step"), Value(7));
  ASSERT_EQ(manifest->data().rank_extras.size(), 3u);
  EXPECT_EQ(manifest->data().rank_extras[2].at("rank"), Value(2));
  EXPECT_TRUE(absl::StartsWith(manifest->data().writer, "shardwright "));
  EXPECT_EQ(manifest->Find("lm_head")->alias_of, "wte");
  EXPECT_FALSE(manifest->Find("frozen")->meta.trainable);
  EXPECT_EQ(manifest->Find("optimizer.0.state.wte.exp_avg")->meta.optimizer.slot, "exp_avg");
}

TEST(SaveTest, ATakenNameIsRefusedAndLeftAlone) {
  const auto storage = MakeMemoryStorage();
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  ASSERT_THAT(Save(*storage, "run/a", tensors), IsOk());
  EXPECT_THAT(SaveOnRanks(*storage, "run/a", tensors, {.world_size = 2}),
              Each(StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("saving run/a"))));
  EXPECT_THAT(CheckHolds(*storage, "run/a", tensors), IsOk());
  ASSERT_THAT(storage->CreateDirectory("run/empty"), IsOk());
  EXPECT_THAT(Save(*storage, "run/empty", tensors), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(Names(*storage, "run"), ElementsAre("a", "empty"));
}

TEST(SaveTest, RanksThatPlannedDifferentlyAreRefused) {
  const auto storage = MakeMemoryStorage();
  const std::vector<absl::Status> statuses = RunRanks(2, [&](CommGroups& groups) -> absl::Status {
    std::mt19937_64 own(1);
    const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kFloat32, {4 + groups.rank()}), own)};
    const RankState state(tensors, &ReplicatedBox, groups.rank(), 2);
    SW_ASSIGN_OR_RETURN(const SavePlan plan, PlanSave(ToSave(tensors), &ReplicatedBox, World{2, 1}, {}));
    MemoryBudget budget;
    return SaveCheckpoint(*storage, "c", plan, LocalTensors(state.state()), {}, budget, *groups.checkpoint).status();
  });
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("different saves"))));
  EXPECT_FALSE(Exists(*storage, "c"));
}

TEST(SaveTest, AWorldOfAnotherSizeThanPlannedIsRefused) {
  const auto storage = MakeMemoryStorage();
  const auto statuses = RunRanks(2, [&](CommGroups& groups) -> absl::Status {
    SW_ASSIGN_OR_RETURN(const SavePlan plan, PlanSave({}, &ReplicatedBox, World{3, 1}, {}));
    MemoryBudget budget;
    const LocalState none;
    return SaveCheckpoint(*storage, "c", plan, LocalTensors(none), {}, budget, *groups.checkpoint).status();
  });
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 ranks"))));
}

TEST(SaveTest, NothingToSaveIsACheckpointToo) {
  const auto storage = MakeMemoryStorage();
  ASSERT_THAT(Save(*storage, "c", {}, {.world_size = 2}), IsOk());
  EXPECT_THAT(CheckHolds(*storage, "c", {}), IsOk());
}

// Answers no Direct spans, as tensors on a device.
class StagedSource : public TensorSource {
 public:
  explicit StagedSource(const LocalState& state) : tensors_(state) {}
  absl::Status Read(absl::string_view name, const Box& box, absl::Span<char> out) const override {
    largest = std::max(largest.load(), out.size());
    return tensors_.Read(name, box, out);
  }
  mutable std::atomic<size_t> largest = 0;

 private:
  LocalTensors tensors_;
};

TEST(SaveTest, TensorsThatAreNotInHostMemoryGoThroughTheWindow) {
  const auto storage = MakeMemoryStorage();
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kFloat32, {700, 500}), random),
                                           Make(Meta("v", DType::kUInt8, {3}), random)};
  const RankState state(tensors, &ReplicatedBox, 0, 1);
  const StagedSource source(state.state());
  SW_ASSERT_OK_AND_ASSIGN(const SavePlan plan,
                          PlanSave(ToSave(tensors), &ReplicatedBox, World{}, {.window_bytes = 10000}));
  MemoryBudget budget(10000);
  std::vector<CommGroups> alone = MakeThreadGroups(1);
  ASSERT_THAT(SaveCheckpoint(*storage, "c", plan, source, {}, budget, *alone[0].checkpoint), IsOk());
  EXPECT_LE(source.largest, 10000u);
  EXPECT_LE(budget.peak_bytes(), plan.peak_bytes_per_rank);
  EXPECT_THAT(CheckHolds(*storage, "c", tensors), IsOk());
}

TEST(SaveTest, ABudgetThatIsTooSmallIsRefusedBeforeAnythingIsMade) {
  const auto base = MakeMemoryStorage();
  FaultStorage storage(*base);
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("w", DType::kFloat32, {1000}), random)};
  const auto statuses = RunRanks(2, [&](CommGroups& groups) -> absl::Status {
    const RankState state(tensors, &ReplicatedBox, groups.rank(), 2);
    SW_ASSIGN_OR_RETURN(const SavePlan plan, PlanSave(ToSave(tensors), &ReplicatedBox, World{2, 1}, {}));
    MemoryBudget budget(100);
    return SaveCheckpoint(storage, "c", plan, LocalTensors(state.state()), {}, budget, *groups.checkpoint).status();
  });
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("100 bytes"))));
  for (const std::string& operation : storage.log()) EXPECT_TRUE(absl::StartsWith(operation, "Info")) << operation;
}

TEST(SaveTest, SmallNeighboursAreWrittenTogether) {
  const auto storage = MakeMemoryStorage();
  std::mt19937_64 random(1);
  std::vector<MadeTensor> tensors;
  for (int i = 0; i < 5000; ++i) tensors.push_back(Make(Meta(absl::StrCat("t", i), DType::kFloat32, {4}), random));
  ASSERT_THAT(Save(*storage, "c", tensors), IsOk());
  EXPECT_LT(storage->counters().writes.load(), 20u);
}

TEST(SaveTest, EveryByteIsWrittenOnce) {
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  uint64_t bytes = 0;
  for (const MadeTensor& tensor : tensors) bytes += tensor.bytes.size();
  for (SaveLayout layout : {SaveLayout::kSharded, SaveLayout::kSingleFile}) {
    const auto storage = MakeMemoryStorage();
    ASSERT_THAT(Save(*storage, "c", tensors, {.world_size = 3, .layout = layout}), IsOk());
    SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "c"));
    uint64_t headers = 0;
    for (const FileMeta& file : manifest->files()) headers += file.header_bytes;
    SW_ASSERT_OK_AND_ASSIGN(const FileInfo info, storage->Info("c/manifest.pb"));
    EXPECT_EQ(storage->counters().bytes_written.load(), bytes + headers + info.size_bytes);
  }
}

// A rank that dies without a word, or leaves with an error, takes the others along.
class DyingSource : public TensorSource {
 public:
  DyingSource(const LocalState& state, Communicator& comm) : tensors_(state), comm_(comm) {}
  absl::Status Read(absl::string_view name, const Box& box, absl::Span<char> out) const override {
    comm_.Abandon(absl::InternalError("the device fell off"));
    return absl::InternalError("the device fell off");
  }

 private:
  LocalTensors tensors_;
  Communicator& comm_;
};

TEST(SaveTest, ARankThatLeavesInTheMiddleTakesTheOthersAlong) {
  const auto storage = MakeMemoryStorage();
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  const auto statuses = RunRanks(3, [&](CommGroups& groups) -> absl::Status {
    const RankState state(tensors, &RowShardBox, groups.rank(), 3);
    SW_ASSIGN_OR_RETURN(const SavePlan plan, PlanSave(ToSave(tensors), &RowShardBox, World{3, 1}, {}));
    MemoryBudget budget;
    const DyingSource dying(state.state(), *groups.checkpoint);
    const LocalTensors living(state.state());
    const TensorSource& source = groups.rank() == 1 ? static_cast<const TensorSource&>(dying) : living;
    return SaveCheckpoint(*storage, "run/c", plan, source, {}, budget, *groups.checkpoint).status();
  });
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kInternal, HasSubstr("fell off")));
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fell off")));
  EXPECT_THAT(statuses[2], StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fell off")));
  EXPECT_THAT(Names(*storage, "run"), ElementsAre());
}

TEST(SaveTest, ASourceThatFailsIsNamedOnEveryRank) {
  const auto storage = MakeMemoryStorage();
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  const auto statuses = RunRanks(3, [&](CommGroups& groups) -> absl::Status {
    const RankState state(tensors, &RowShardBox, groups.rank(), 3);
    SW_ASSIGN_OR_RETURN(const SavePlan plan, PlanSave(ToSave(tensors), &RowShardBox, World{3, 1}, {}));
    MemoryBudget budget;
    const LocalState nothing;
    const LocalTensors source(groups.rank() == 2 ? nothing : state.state());
    return SaveCheckpoint(*storage, "run/c", plan, source, {}, budget, *groups.checkpoint).status();
  });
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("rank 2: "), HasSubstr("tensor \""))));
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kNotFound, HasSubstr("rank 2: ")));
  EXPECT_THAT(Names(*storage, "run"), ElementsAre());
}

TEST(SaveTest, AnErrorAfterTheRenameSaysThatTheCheckpointIsThere) {
  const auto base = MakeMemoryStorage();
  ASSERT_THAT(base->CreateDirectories("run"), IsOk());
  FaultStorage storage(*base);
  // The temporary directory is synced first, its parent after the rename.
  storage.FailNext(StorageCall::kSyncDirectory, FaultKind::kIoError, 1);
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  EXPECT_THAT(SaveOnRanks(storage, "run/c", tensors, {.world_size = 2}),
              Each(StatusIs(absl::StatusCode::kUnavailable, HasSubstr("complete and in place"))));
  EXPECT_THAT(CheckHolds(*base, "run/c", tensors), IsOk());
}

}  // namespace
}  // namespace shardwright
