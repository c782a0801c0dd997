#include <random>

#include "shardwright/core/checkpoint/checkpoint_io.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/checkpoint_runs.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::AwkwardTensors;
using ::shardwright::testing::BoxBytes;
using ::shardwright::testing::IsOk;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::Make;
using ::shardwright::testing::Meta;
using ::shardwright::testing::RandomTensors;
using ::shardwright::testing::Save;
using ::shardwright::testing::StatusIs;
using ::testing::HasSubstr;

TEST(ReadBoxTest, AnyBoxOfAnyTensor) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<MadeTensor> tensors = RandomTensors(random, 8, 3'000'000);
    for (MadeTensor& tensor : AwkwardTensors()) tensors.push_back(std::move(tensor));
    const auto storage = MakeMemoryStorage();
    ASSERT_THAT(Save(*storage, "c", tensors, {.rule = &RowShardBox, .world_size = 3}), IsOk());
    SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "c"));
    for (const MadeTensor& tensor : tensors) {
      if (!tensor.alias_of.empty()) continue;
      Box box = Box::Whole(tensor.meta.shape);
      for (size_t d = 0; d < box.size.size(); ++d) {
        box.offset[d] = static_cast<int64_t>(random() % static_cast<uint64_t>(tensor.meta.shape[d] + 1));
        box.size[d] = static_cast<int64_t>(random() % static_cast<uint64_t>(tensor.meta.shape[d] - box.offset[d] + 1));
      }
      for (const Box& wanted : {box, Box::Whole(tensor.meta.shape)}) {
        std::string out(static_cast<size_t>(tensor.meta.BytesOf(wanted)), '\0');
        ASSERT_THAT(ReadBox(*storage, "c", *manifest, tensor.meta.name, wanted, absl::MakeSpan(out)), IsOk());
        EXPECT_EQ(out, BoxBytes(tensor, wanted)) << tensor.meta.name << wanted.ToString();
      }
    }
  }
}

TEST(ReadBoxTest, ReadsNoMoreThanTheChunksOfTheBox) {
  std::mt19937_64 random(1);
  const MadeTensor tensor = Make(Meta("w", DType::kFloat32, {1000, 1000}), random);
  const auto storage = MakeMemoryStorage();
  ASSERT_THAT(Save(*storage, "c", {tensor}), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "c"));
  const uint64_t before = storage->counters().bytes_read.load();
  std::string row(4000, '\0');
  ASSERT_THAT(ReadBox(*storage, "c", *manifest, "w", Box{{500, 0}, {1, 1000}}, absl::MakeSpan(row)), IsOk());
  EXPECT_LE(storage->counters().bytes_read.load() - before, 2 * kChecksumChunkBytes);
}

TEST(ReadBoxTest, AliasesResolve) {
  const auto storage = MakeMemoryStorage();
  const std::vector<MadeTensor> tensors = AwkwardTensors();
  ASSERT_THAT(Save(*storage, "c", tensors), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "c"));
  std::string tied(64 * 16 * 4, '\0'), target = tied;
  ASSERT_THAT(ReadBox(*storage, "c", *manifest, "lm_head", Box::Whole({64, 16}), absl::MakeSpan(tied)), IsOk());
  ASSERT_THAT(ReadBox(*storage, "c", *manifest, "wte", Box::Whole({64, 16}), absl::MakeSpan(target)), IsOk());
  EXPECT_EQ(tied, target);
}

TEST(ReadBoxTest, BadRequestsAndDamage) {
  std::mt19937_64 random(1);
  const MadeTensor tensor = Make(Meta("w", DType::kFloat32, {100, 300}), random);
  const auto storage = MakeMemoryStorage();
  ASSERT_THAT(Save(*storage, "c", {tensor}), IsOk());
  SW_ASSERT_OK_AND_ASSIGN(const auto manifest, OpenManifest(*storage, "c"));
  std::string out(1200, '\0');
  const auto read = [&](absl::string_view name, const Box& box, CheckLevel level = CheckLevel::kFull) {
    return ReadBox(*storage, "c", *manifest, name, box, absl::MakeSpan(out), level);
  };
  EXPECT_THAT(read("nope", Box{{0, 0}, {1, 300}}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nope")));
  EXPECT_THAT(read("w", Box{{100, 0}, {1, 300}}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(read("w", Box{{0}, {300}}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(read("w", Box{{0, 0}, {2, 300}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2400 bytes")));
  const ShardMeta& shard = manifest->Find("w")->shards[0];
  const std::string path = "c/" + manifest->files()[shard.file].path;
  ASSERT_THAT((*storage->OpenWrite(path))->WriteAt(shard.offset_bytes + 3, absl::string_view("????")), IsOk());
  EXPECT_THAT(read("w", Box{{1, 0}, {1, 300}}), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("\"w\", shard 0")));
  EXPECT_THAT(read("w", Box{{1, 0}, {1, 300}}, CheckLevel::kQuick), IsOk());
  EXPECT_EQ(out, BoxBytes(tensor, Box{{1, 0}, {1, 300}}));
  // The damage is in another chunk.
  EXPECT_THAT(read("w", Box{{99, 0}, {1, 300}}), IsOk());
}

}  // namespace
}  // namespace shardwright
