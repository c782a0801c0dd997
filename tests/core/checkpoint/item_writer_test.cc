#include "shardwright/core/checkpoint/item_writer.h"

#include <random>

#include "shardwright/core/storage/memory.h"
#include "shardwright/tests/testing/state_maker.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::MadeTensor;
using ::shardwright::testing::Make;
using ::shardwright::testing::Meta;
using ::shardwright::testing::RankState;
using ::shardwright::testing::StatusIs;

// Writes all tensors one after the other, from offset 100, through `staging_bytes`.
std::string WriteAll(const std::vector<MadeTensor>& tensors, uint64_t staging_bytes,
                     std::vector<ItemChecksums>* checksums) {
  const auto storage = MakeMemoryStorage();
  const auto file = *storage->CreateFile("f");
  const RankState state(tensors, &ReplicatedBox, 0, 1);
  const LocalTensors source(state.state());
  std::string staging(staging_bytes, '\0');
  ItemWriter writer(source, absl::MakeSpan(staging));
  uint64_t offset = 100;
  for (const MadeTensor& tensor : tensors) {
    WriteItem item{0, 0, Box::Whole(tensor.meta.shape), 0, 0, tensor.bytes.size()};
    const auto written = writer.Write(tensor.meta, item, *file, offset);
    EXPECT_THAT(written, IsOk());
    checksums->push_back(*written);
    offset += tensor.bytes.size();
  }
  EXPECT_THAT(writer.Flush(), IsOk());
  return ReadWholeFile(*storage, "f", offset)->substr(100);
}

TEST(ItemWriterTest, BytesAndChecksumsWhateverTheStaging) {
  std::mt19937_64 random(1);
  std::vector<MadeTensor> tensors;
  for (const Shape& shape :
       std::vector<Shape>{{3}, {}, {0}, {100000}, {70, 1000}, {900, 1000}, {5}, {1, 1, 70000}, {1300, 2000}}) {
    const std::string name = absl::StrCat("t", tensors.size());
    tensors.push_back(Make(Meta(name, DType::kUInt16, shape), random));
  }
  std::string want;
  for (const MadeTensor& tensor : tensors) want += tensor.bytes;
  for (uint64_t staging : {64, 1000, 100000, 4 << 20}) {
    std::vector<ItemChecksums> checksums;
    EXPECT_EQ(WriteAll(tensors, staging, &checksums), want) << staging;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string& bytes = tensors[i].bytes;
      EXPECT_EQ(checksums[i].hash, HashContent(bytes));
      ASSERT_EQ(checksums[i].chunks.size(), (bytes.size() + 65535) / 65536);
      for (size_t c = 0; c < checksums[i].chunks.size(); ++c) {
        EXPECT_EQ(checksums[i].chunks[c], Crc32c(absl::string_view(bytes).substr(c * 65536, 65536)));
      }
    }
  }
}

TEST(ItemWriterTest, AnUnknownTensorIsAnError) {
  const auto storage = MakeMemoryStorage();
  const auto file = *storage->CreateFile("f");
  const LocalState none;
  const LocalTensors source(none);
  std::string staging(64, '\0');
  ItemWriter writer(source, absl::MakeSpan(staging));
  const WriteItem item{0, 0, Box::Whole({2}), 0, 0, 2};
  EXPECT_THAT(writer.Write(Meta("w", DType::kUInt8, {2}), item, *file, 0), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace shardwright
