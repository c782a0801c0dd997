#include "shardwright/core/checkpoint/verify.h"

#include <random>

#include "absl/strings/str_join.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/manifest/codec.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/fault_storage.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::AwkwardTensors;
using ::shardwright::testing::FaultKind;
using ::shardwright::testing::FaultStorage;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::Make;
using ::shardwright::testing::Meta;
using ::shardwright::testing::Save;
using ::shardwright::testing::StorageCall;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void Overwrite(Storage& storage, absl::string_view path, uint64_t offset, absl::string_view bytes) {
  ASSERT_THAT((*storage.OpenWrite(path))->WriteAt(offset, bytes), IsOk());
}

TEST(VerifyTest, AGoodCheckpoint) {
  const auto storage = MakeMemoryStorage();
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  ASSERT_THAT(Save(*storage, "c", tensors, {.world_size = 2}), IsOk());
  const VerifyResult full = VerifyCheckpoint(*storage, "c", CheckLevel::kFull);
  EXPECT_EQ(full.verdict, VerifyVerdict::kOk);
  EXPECT_THAT(full.problems, IsEmpty());
  EXPECT_EQ(full.shards, tensors.size() - 1);
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "c"));
  uint64_t bytes = 0;
  for (const FileMeta& file : manifest->files()) bytes += file.size_bytes;
  EXPECT_EQ(full.bytes_checked, bytes);
  EXPECT_EQ(VerifyCheckpoint(*storage, "c", CheckLevel::kQuick).verdict, VerifyVerdict::kOk);
}

TEST(VerifyTest, AllProblemsAreListed) {
  const auto storage = MakeMemoryStorage();
  std::mt19937_64 random(1);
  const std::vector<MadeTensor> tensors = {Make(Meta("a", DType::kUInt8, {200000}), random),
                                           Make(Meta("b", DType::kUInt8, {200000}), random),
                                           Make(Meta("c", DType::kUInt8, {200000}), random),
                                           Make(testing::StateMeta("a", "s", DType::kUInt8, {10}), random)};
  ASSERT_THAT(Save(*storage, "x", tensors), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "x"));
  const ShardMeta& a = manifest->Find("a")->shards[0];
  const ShardMeta& c = manifest->Find("c")->shards[0];
  const std::string model = "x/model-00000-of-00001.safetensors";
  Overwrite(*storage, model, a.offset_bytes, "????");
  Overwrite(*storage, model, a.offset_bytes + 150000, "????");
  Overwrite(*storage, model, c.offset_bytes + 70000, "????");
  Overwrite(*storage, model, 9, "????");
  ASSERT_THAT(storage->RemoveFile("x/optimizer-00000-of-00001.safetensors"), IsOk());
  const VerifyResult result = VerifyCheckpoint(*storage, "x", CheckLevel::kFull);
  EXPECT_EQ(result.verdict, VerifyVerdict::kDamaged);
  EXPECT_THAT(
      result.problems,
      ElementsAre(HasSubstr("header"), HasSubstr("optimizer-00000"),
                  AllOf(HasSubstr("tensor \"a\", shard 0"), HasSubstr("want "), HasSubstr("1 more chunks")),
                  AllOf(HasSubstr("tensor \"c\", shard 0"), HasSubstr(absl::StrCat("[", c.offset_bytes + 65536)))));
  EXPECT_THAT(VerifyCheckpoint(*storage, "x", CheckLevel::kQuick).problems, SizeIs(2));
}

TEST(VerifyTest, UnfinishedSavesArePartial) {
  const auto storage = MakeMemoryStorage();
  ASSERT_THAT(Save(*storage, "run/.tmp-step-00000001-00aa", AwkwardTensors()), IsOk());
  EXPECT_EQ(VerifyCheckpoint(*storage, "run/.tmp-step-00000001-00aa", CheckLevel::kFull).verdict,
            VerifyVerdict::kPartial);
  ASSERT_THAT(storage->CreateDirectory("run/step-00000002"), IsOk());
  EXPECT_EQ(VerifyCheckpoint(*storage, "run/step-00000002", CheckLevel::kFull).verdict, VerifyVerdict::kPartial);
}

TEST(VerifyTest, AbsenceAndIoErrorsSayNothingAboutTheBytes) {
  const auto base = MakeMemoryStorage();
  EXPECT_EQ(VerifyCheckpoint(*base, "nope", CheckLevel::kFull).verdict, VerifyVerdict::kUnreadable);
  EXPECT_EQ(VerifyCheckpoint(*base, ".tmp-nope-1", CheckLevel::kFull).verdict, VerifyVerdict::kUnreadable);
  ASSERT_THAT(Save(*base, "c", AwkwardTensors()), IsOk());
  FaultStorage storage(*base);
  storage.FailNext(StorageCall::kOpenRead, FaultKind::kIoError);
  EXPECT_EQ(VerifyCheckpoint(storage, "c", CheckLevel::kFull).verdict, VerifyVerdict::kUnreadable);
  storage.FailNext(StorageCall::kReadAt, FaultKind::kIoError, 5);
  const VerifyResult result = VerifyCheckpoint(storage, "c", CheckLevel::kFull);
  EXPECT_EQ(result.verdict, VerifyVerdict::kUnreadable);
  EXPECT_THAT(result.problems, SizeIs(1));
  EXPECT_EQ(VerifyCheckpoint(storage, "c", CheckLevel::kFull).verdict, VerifyVerdict::kOk);
}

TEST(VerifyTest, WithoutChecksumsItIsUnsealed) {
  const auto storage = MakeMemoryStorage();
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  ASSERT_THAT(Save(*storage, "c", tensors), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "c"));
  ManifestData data = manifest->data();
  for (TensorEntry& tensor : data.tensors) {
    for (ShardMeta& shard : tensor.shards) {
      shard.chunk_crc32c.clear();
      shard.hash = {};
    }
  }
  SW_ASSERT_OK_AND_ASSIGN(const auto unsealed, Manifest::Create(std::move(data)));
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeManifest(*unsealed));
  ASSERT_THAT(storage->RemoveFile("c/manifest.pb"), IsOk());
  ASSERT_THAT(WriteWholeFile(*storage, "c/manifest.pb", bytes), IsOk());
  EXPECT_EQ(VerifyCheckpoint(*storage, "c", CheckLevel::kFull).verdict, VerifyVerdict::kUnsealed);
  // They load all the same.
  const testing::Loaded loaded = testing::Load(*storage, "c", tensors, {.rule = &RowShardBox, .world_size = 3});
  ASSERT_THAT(loaded.status(), IsOk());
  EXPECT_THAT(loaded.states[1]->Differences(tensors), IsEmpty());
}

TEST(VerifyTest, AContentHashThatDiffersAloneIsDamage) {
  const auto storage = MakeMemoryStorage();
  ASSERT_THAT(Save(*storage, "c", AwkwardTensors()), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "c"));
  ManifestData data = manifest->data();
  data.tensors[0].shards[0].hash.low ^= 1;
  SW_ASSERT_OK_AND_ASSIGN(const auto changed, Manifest::Create(std::move(data)));
  const VerifyResult result = VerifyOpened(*storage, "c", *changed, CheckLevel::kFull);
  EXPECT_EQ(result.verdict, VerifyVerdict::kDamaged);
  EXPECT_THAT(result.problems, ElementsAre(HasSubstr("content hash")));
}

TEST(VerifyTest, LinksToACheckpointAreFollowed) {
  const auto storage = MakeMemoryStorage();
  ASSERT_THAT(Save(*storage, "run/step-00000001", AwkwardTensors()), IsOk());
  ASSERT_THAT(storage->Symlink("step-00000001", "run/last"), IsOk());
  EXPECT_EQ(VerifyCheckpoint(*storage, "run/last", CheckLevel::kFull).verdict, VerifyVerdict::kOk);
}

TEST(VerifyTest, VerdictNames) {
  EXPECT_EQ(VerdictName(VerifyVerdict::kOk), "ok");
  EXPECT_EQ(VerdictName(VerifyVerdict::kDamaged), "DAMAGED");
  EXPECT_EQ(VerdictName(VerifyVerdict::kPartial), "partial");
  EXPECT_EQ(VerdictName(VerifyVerdict::kUnsealed), "unsealed");
  EXPECT_EQ(VerdictName(VerifyVerdict::kUnreadable), "unreadable");
}

}  // namespace
}  // namespace shardwright
