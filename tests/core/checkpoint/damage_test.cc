// Whatever byte of a checkpoint is changed, loads refuse it before the state is touched, and verify finds it.
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/checkpoint/verify.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::CheckHolds;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::kPoison;
using ::shardwright::testing::Load;
using ::shardwright::testing::Loaded;
using ::shardwright::testing::LoadSetup;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::Make;
using ::shardwright::testing::Meta;
using ::shardwright::testing::Save;
using ::shardwright::testing::StateMeta;
using ::shardwright::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

std::vector<MadeTensor> Tensors() {
  std::mt19937_64 random(11);
  return {Make(Meta("wide", DType::kFloat32, {40, 1001}), random), Make(Meta("small", DType::kBFloat16, {7}), random),
          Make(Meta("large", DType::kFloat32, {200, 1000}), random), Make(Meta("scalar", DType::kFloat32, {}), random),
          Make(StateMeta("wide", "exp_avg", DType::kFloat32, {40, 1001}), random)};
}

void Flip(Storage& storage, absl::string_view path, uint64_t offset, char mask = 1) {
  SW_ASSERT_OK_AND_ASSIGN(const auto read, storage.OpenRead(path));
  char byte = 0;
  ASSERT_THAT(read->ReadAt(offset, absl::MakeSpan(&byte, 1)), IsOk());
  byte = static_cast<char>(byte ^ mask);
  SW_ASSERT_OK_AND_ASSIGN(const auto write, storage.OpenWrite(path));
  ASSERT_THAT(write->WriteAt(offset, absl::MakeConstSpan(&byte, 1)), IsOk());
  ASSERT_THAT(write->Close(), IsOk());
}

void Replace(Storage& storage, absl::string_view path, absl::string_view bytes) {
  ASSERT_THAT(storage.RemoveFile(path), IsOk());
  ASSERT_THAT(WriteWholeFile(storage, path, bytes), IsOk());
}

// The sinks hold what they held before the load.
void ExpectUntouched(const Loaded& loaded) {
  for (const auto& state : loaded.states) {
    const std::string bytes = state->AllBytes();
    EXPECT_EQ(bytes, std::string(bytes.size(), kPoison));
  }
}

// Every rank is refused with kDataLoss, nothing was moved, and verify agrees.
void ExpectRefused(Storage& storage, absl::string_view path, const ::testing::Matcher<std::string>& message) {
  const Loaded loaded = Load(storage, path, Tensors(), {.rule = &RowShardBox, .world_size = 3});
  EXPECT_THAT(loaded.statuses, Each(StatusIs(absl::StatusCode::kDataLoss, message)));
  ExpectUntouched(loaded);
  const VerifyResult verified = VerifyCheckpoint(storage, path, CheckLevel::kFull);
  EXPECT_EQ(verified.verdict, VerifyVerdict::kDamaged);
  EXPECT_THAT(absl::StrJoin(verified.problems, "\n"), message);
}

class DamageTest : public ::testing::TestWithParam<SaveLayout> {
 protected:
  DamageTest() : storage_(MakeMemoryStorage()) {
    EXPECT_THAT(Save(*storage_, "c", Tensors(), {.rule = &RowShardBox, .world_size = 2, .layout = GetParam()}), IsOk());
    manifest_ = *OpenManifest(*storage_, "c");
  }
  std::unique_ptr<Storage> storage_;
  std::shared_ptr<const Manifest> manifest_;
};

TEST_P(DamageTest, ABitOfEachShard) {
  for (const TensorEntry& tensor : manifest_->tensors()) {
    for (size_t i = 0; i < tensor.shards.size(); ++i) {
      const ShardMeta& shard = tensor.shards[i];
      const std::string file = manifest_->files()[shard.file].path;
      for (const uint64_t at : {uint64_t{0}, shard.length_bytes / 2, shard.length_bytes - 1}) {
        SCOPED_TRACE(absl::StrCat(tensor.meta.name, " shard ", i, " at ", at));
        const uint64_t chunk = shard.offset_bytes + at / kChecksumChunkBytes * kChecksumChunkBytes;
        Flip(*storage_, "c/" + file, shard.offset_bytes + at);
        ExpectRefused(*storage_, "c",
                      AllOf(HasSubstr(absl::StrCat("tensor \"", tensor.meta.name, "\", shard ", i, ",")),
                            HasSubstr(file), HasSubstr(absl::StrCat("bytes [", chunk, ", "))));
        Flip(*storage_, "c/" + file, shard.offset_bytes + at);
      }
    }
  }
  EXPECT_THAT(CheckHolds(*storage_, "c", Tensors()), IsOk());
}

TEST_P(DamageTest, ABitOfEachHeader) {
  for (const FileMeta& file : manifest_->files()) {
    for (uint64_t at = 0; at < file.header_bytes; at += 1 + file.header_bytes / 40) {
      SCOPED_TRACE(absl::StrCat(file.path, " at ", at));
      Flip(*storage_, "c/" + file.path, at, '\x40');
      ExpectRefused(*storage_, "c", AllOf(HasSubstr(file.path), HasSubstr("header")));
      Flip(*storage_, "c/" + file.path, at, '\x40');
    }
  }
}

TEST_P(DamageTest, ABitOfTheManifest) {
  SW_ASSERT_OK_AND_ASSIGN(const FileInfo info, storage_->Info("c/manifest.pb"));
  for (uint64_t at = 0; at < info.size_bytes; at += 1 + info.size_bytes / 200) {
    SCOPED_TRACE(at);
    Flip(*storage_, "c/manifest.pb", at);
    ExpectRefused(*storage_, "c", HasSubstr("manifest"));
    Flip(*storage_, "c/manifest.pb", at);
  }
}

TEST_P(DamageTest, FilesCutGrownOrGone) {
  for (const FileMeta& file : manifest_->files()) {
    SCOPED_TRACE(file.path);
    const std::string path = "c/" + file.path;
    SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWholeFile(*storage_, path, 1 << 24));
    const std::string cut = bytes.substr(0, bytes.size() - 1);
    for (const std::string& changed : {cut, std::string(), bytes + "x"}) {
      Replace(*storage_, path, changed);
      ExpectRefused(*storage_, "c", AllOf(HasSubstr(path), HasSubstr(absl::StrCat("want ", bytes.size()))));
    }
    ASSERT_THAT(storage_->RemoveFile(path), IsOk());
    ExpectRefused(*storage_, "c", AllOf(HasSubstr(path), HasSubstr("not there")));
    ASSERT_THAT(WriteWholeFile(*storage_, path, bytes), IsOk());
  }
}

TEST_P(DamageTest, TwoShardsOfEqualSizeSwapped) {
  const TensorEntry& wide = *manifest_->Find("wide");
  ASSERT_EQ(wide.shards[0].length_bytes, wide.shards[1].length_bytes);
  const auto path_of = [&](int i) { return "c/" + manifest_->files()[wide.shards[i].file].path; };
  std::string bytes[2];
  for (int i : {0, 1}) {
    bytes[i].resize(wide.shards[i].length_bytes);
    ASSERT_THAT((*storage_->OpenRead(path_of(i)))->ReadAt(wide.shards[i].offset_bytes, absl::MakeSpan(bytes[i])),
                IsOk());
  }
  for (int i : {0, 1}) {
    ASSERT_THAT((*storage_->OpenWrite(path_of(i)))->WriteAt(wide.shards[i].offset_bytes, bytes[1 - i]), IsOk());
  }
  ExpectRefused(*storage_, "c", HasSubstr("tensor \"wide\", shard "));
}

TEST_P(DamageTest, WithoutVerifyFirstItIsStillFound) {
  const ShardMeta& shard = manifest_->Find("large")->shards.back();
  Flip(*storage_, "c/" + manifest_->files()[shard.file].path, shard.offset_bytes + shard.length_bytes - 1);
  LoadSetup setup{.rule = &RowShardBox, .world_size = 3};
  setup.options.verify_first = false;
  EXPECT_THAT(Load(*storage_, "c", Tensors(), setup).statuses,
              Each(StatusIs(absl::StatusCode::kDataLoss, HasSubstr("\"large\""))));
}

TEST_P(DamageTest, ChecksCanBeTurnedOff) {
  const ShardMeta& shard = manifest_->Find("large")->shards.back();
  Flip(*storage_, "c/" + manifest_->files()[shard.file].path, shard.offset_bytes);
  for (const CheckLevel level : {CheckLevel::kOff, CheckLevel::kQuick}) {
    LoadSetup setup{.rule = &RowShardBox, .world_size = 2};
    setup.options.check = level;
    const Loaded loaded = Load(*storage_, "c", Tensors(), setup);
    ASSERT_THAT(loaded.status(), IsOk());
    EXPECT_THAT(loaded.states[1]->Differences(Tensors()), ::testing::ElementsAre("large"));
  }
  Flip(*storage_, "c/" + manifest_->files()[0].path, 9);
  LoadSetup setup;
  setup.options.check = CheckLevel::kQuick;
  EXPECT_THAT(Load(*storage_, "c", Tensors(), setup).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("header")));
}

INSTANTIATE_TEST_SUITE_P(Layouts, DamageTest, ::testing::Values(SaveLayout::kSharded, SaveLayout::kSingleFile),
                         [](const auto& info) { return std::string(SaveLayoutName(info.param)); });

}  // namespace
}  // namespace shardwright
