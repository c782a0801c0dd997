// Reads the golden checkpoints of every format version and compares each field and byte with what was saved, from the
// files alone: manifest, headers and data.
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/format/native/native.h"
#include "shardwright/core/format/safetensors/header.h"
#include "shardwright/core/manifest/codec.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/tests/golden/golden_state.h"
#include "tests/testing/status_matchers.h"

namespace shardwright::testing {
namespace {

struct Golden {
  std::string directory;  // under tests/golden
  SaveLayout layout;
  std::set<std::string> files;
};

class GoldenTest : public ::testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat("tests/golden/", GetParam().directory);
    SW_ASSERT_OK_AND_ASSIGN(manifest_, OpenManifest(*storage_, directory_));
    for (const FileMeta& file : manifest_->files()) {
      SW_ASSERT_OK_AND_ASSIGN(std::string bytes, ReadWholeFile(*storage_, JoinPath(directory_, file.path), 1 << 20));
      contents_.push_back(std::move(bytes));
    }
  }

  absl::string_view BytesOf(const ShardMeta& shard) const {
    return absl::string_view(contents_[shard.file]).substr(shard.offset_bytes, shard.length_bytes);
  }

  std::unique_ptr<Storage> storage_ = MakePosixStorage();
  std::string directory_;
  std::shared_ptr<const Manifest> manifest_;
  std::vector<std::string> contents_;  // by file index
};

TEST_P(GoldenTest, TheDirectoryHoldsTheFilesOfItsLayout) {
  SW_ASSERT_OK_AND_ASSIGN(const std::vector<DirectoryEntry> entries, storage_->List(directory_));
  std::set<std::string> there, listed = {std::string(kManifestFileName)};
  for (const DirectoryEntry& entry : entries) there.insert(entry.name);
  for (const FileMeta& file : manifest_->files()) listed.insert(file.path);
  EXPECT_EQ(there, GetParam().files);
  EXPECT_EQ(listed, GetParam().files);
}

TEST_P(GoldenTest, TheRunIsAsSaved) {
  const ManifestData& data = manifest_->data();
  EXPECT_EQ(data.format_version, 1u);
  EXPECT_EQ(data.min_reader_version, 1u);
  EXPECT_EQ(data.writer, "shardwright 0.1.0");
  EXPECT_EQ(data.layout, GetParam().layout);
  EXPECT_EQ(data.progress, GoldenProgress());
  EXPECT_EQ(data.topology, GoldenTopology());
  EXPECT_EQ(data.load_order, GoldenLoadOrder());
  EXPECT_EQ(data.extras, GoldenExtras());
  ASSERT_EQ(data.rank_extras.size(), static_cast<size_t>(kGoldenWorldSize));
  for (int32_t rank = 0; rank < kGoldenWorldSize; ++rank) EXPECT_EQ(data.rank_extras[rank], GoldenRankExtras(rank));
}

TEST_P(GoldenTest, EveryTensorIsAsSaved) {
  const std::vector<GoldenTensor> want = GoldenTensors();
  ASSERT_EQ(manifest_->tensors().size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const TensorEntry& entry = manifest_->tensors()[i];
    EXPECT_EQ(entry.meta, want[i].meta) << want[i].meta.name;
    EXPECT_EQ(entry.alias_of, want[i].alias_of);
    std::string bytes(entry.meta.bytes(), '\0');
    for (const ShardMeta& shard : manifest_->Resolve(entry).shards) {
      CopyBox(BytesOf(shard).data(), shard.box, bytes.data(), Box::Whole(entry.meta.shape), shard.box,
              ItemSize(entry.meta.dtype));
    }
    EXPECT_TRUE(bytes == GoldenBytes(want[i])) << want[i].meta.name;
  }
}

TEST_P(GoldenTest, EveryChecksumIsThatOfItsBytes) {
  for (size_t i = 0; i < contents_.size(); ++i) {
    const FileMeta& file = manifest_->files()[i];
    ASSERT_EQ(contents_[i].size(), file.size_bytes);
    EXPECT_EQ(file.header_crc32c, Crc32c(absl::MakeSpan(contents_[i]).first(file.header_bytes))) << file.path;
  }
  for (const TensorEntry& tensor : manifest_->tensors()) {
    for (const ShardMeta& shard : tensor.shards) {
      if (shard.length_bytes == 0) continue;
      const absl::string_view bytes = BytesOf(shard);
      std::vector<uint32_t> chunks;
      for (size_t at = 0; at < bytes.size(); at += kChecksumChunkBytes) {
        chunks.push_back(Crc32c(bytes.substr(at, kChecksumChunkBytes)));
      }
      EXPECT_EQ(shard.chunk_crc32c, chunks) << tensor.meta.name;
      EXPECT_EQ(shard.hash, HashContent(bytes)) << tensor.meta.name;
    }
  }
}

// The entries of the data files, by what the manifest says: name or name@offsets, and the place in the file.
TEST_P(GoldenTest, TheHeadersAgreeWithTheManifest) {
  for (size_t i = 0; i < contents_.size(); ++i) {
    const FileMeta& file = manifest_->files()[i];
    SW_ASSERT_OK_AND_ASSIGN(const safetensors::Header header,
                            safetensors::DecodeHeader(contents_[i], contents_[i].size()));
    EXPECT_EQ(file.header_bytes % 64, 0u);
    EXPECT_EQ(header.metadata.at("format"), "pt");
    std::map<std::string, safetensors::Entry> entries;
    for (const safetensors::Entry& entry : header.entries) entries[entry.name] = entry;
    for (const TensorEntry& tensor : manifest_->tensors()) {
      for (const ShardMeta& shard : tensor.shards) {
        if (shard.file != i || shard.length_bytes == 0) continue;
        const bool is_single_file = GetParam().layout == SaveLayout::kSingleFile;
        const Box entry_box = is_single_file ? Box::Whole(tensor.meta.shape) : shard.box;
        const std::string key = FileKey(tensor.meta, entry_box);
        ASSERT_EQ(entries.count(key), 1u) << key;
        EXPECT_EQ(entries[key].dtype, tensor.meta.dtype);
        EXPECT_EQ(entries[key].shape, entry_box.size);
        const uint64_t begin = file.header_bytes + entries[key].begin_bytes +
                               FirstElement(entry_box, shard.box) * ItemSize(tensor.meta.dtype);
        EXPECT_EQ(shard.offset_bytes, begin) << key;
      }
    }
  }
}

// The writer of today makes the same bytes of it.
TEST_P(GoldenTest, EncodingAgainGivesTheSameManifest) {
  SW_ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeManifest(*manifest_));
  SW_ASSERT_OK_AND_ASSIGN(const std::string golden,
                          ReadWholeFile(*storage_, JoinPath(directory_, kManifestFileName), 1 << 20));
  EXPECT_TRUE(bytes == golden);
}

INSTANTIATE_TEST_SUITE_P(
    V1, GoldenTest,
    ::testing::Values(Golden{"v1/sharded",
                             SaveLayout::kSharded,
                             {"manifest.pb", "model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors",
                              "optimizer-00000-of-00002.safetensors", "optimizer-00001-of-00002.safetensors"}},
                      Golden{"v1/single_file",
                             SaveLayout::kSingleFile,
                             {"manifest.pb", "model.safetensors", "optimizer.safetensors"}}),
    [](const ::testing::TestParamInfo<Golden>& info) { return std::string(SaveLayoutName(info.param.layout)); });

}  // namespace
}  // namespace shardwright::testing
