#include "shardwright/tests/core/manifest/sample_manifest.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/check.h"

namespace shardwright::testing {
namespace {

// Lays shards one behind the other into a file.
class FileFiller {
 public:
  FileFiller(ManifestData& data, const std::string& path) : data_(data), index_(data.files.size()) {
    data.files.push_back({path, 128, 128, 0x1234ABCD});
  }

  ShardMeta Add(const TensorMeta& meta, const Box& box) {
    FileMeta& file = data_.files[index_];
    ShardMeta shard{box, index_, file.size_bytes, static_cast<uint64_t>(meta.BytesOf(box)), {}, {}};
    file.size_bytes += shard.length_bytes;
    for (uint64_t at = 0; at < shard.length_bytes; at += kChecksumChunkBytes) {
      shard.chunk_crc32c.push_back(static_cast<uint32_t>(0xC0000000 + shard.offset_bytes + at));
    }
    shard.hash = {0xFEDC000000000000 + shard.offset_bytes, 0xABCD};
    return shard;
  }

 private:
  ManifestData& data_;
  uint32_t index_;
};

TensorMeta Meta(const std::string& name, DType dtype, const Shape& shape, Role role) {
  TensorMeta meta;
  meta.name = name;
  meta.dtype = dtype;
  meta.shape = shape;
  meta.role = role;
  return meta;
}

Value::Map SampleExtras() {
  Value::Map nested = {{"betas", Value::List{0.9, -1e300}}, {"empty", Value::Map{}}, {"none", Value()}};
  return {{"bool", true},
          {"bytes", Bytes{std::string("\x00\xff\x80", 3)}},
          {"class", OpaqueObject{"argparse.Namespace"}},
          {"int", int64_t{-42}},
          {"map", nested},
          {"tensor", TensorReference{"wq"}},
          {"text", "gr\xC3\xBC\xC3\x9F"},
          {"zero", 0.0}};
}

}  // namespace

ManifestData SampleManifestData() {
  ManifestData data;
  data.writer = "shardwright 0.1.0";
  data.progress = {200, 3, 6400};
  data.topology = {2, 2, "zero3", 1};
  data.load_order = {LoadMode::kSerialized, 2, 1 << 20};
  FileFiller first(data, "model-00000-of-00002.safetensors");
  FileFiller second(data, "model-00001-of-00002.safetensors");
  FileFiller optimizer(data, "optimizer-00000-of-00002.safetensors");

  TensorEntry large{Meta("embedding", DType::kBFloat16, {300, 256}, Role::kParameter), "", {}};
  large.shards = {first.Add(large.meta, Box::Rows({300, 256}, 0, 150)),
                  second.Add(large.meta, Box::Rows({300, 256}, 150, 300))};
  TensorEntry tied{Meta("head", DType::kBFloat16, {300, 256}, Role::kParameter), "embedding", {}};
  TensorEntry grid{Meta("wq", DType::kFloat32, {6, 4}, Role::kParameter), "", {}};
  grid.meta.trainable = false;
  grid.shards = {first.Add(grid.meta, {{0, 0}, {6, 1}}), second.Add(grid.meta, {{0, 1}, {6, 3}})};
  TensorEntry scalar{Meta("steps", DType::kInt64, {}, Role::kBuffer), "", {}};
  scalar.shards = {second.Add(scalar.meta, Box::Whole({}))};
  TensorEntry empty{Meta("none", DType::kUInt8, {3, 0, 2}, Role::kBuffer), "", {}};
  TensorEntry moment{Meta("optimizer.0.state.wq.exp_avg", DType::kFloat32, {6, 4}, Role::kOptimizer), "", {}};
  moment.meta.optimizer = {0, "wq", "exp_avg"};
  moment.shards = {optimizer.Add(moment.meta, Box::Whole({6, 4}))};

  data.tensors = {large, tied, empty, moment, scalar, grid};
  data.extras = SampleExtras();
  data.rank_extras = {{{"rng", Bytes{"abc"}}}, {{"rng", Bytes{"def"}}}};
  return data;
}

TensorEntry& TensorOf(ManifestData& data, absl::string_view name) {
  for (TensorEntry& tensor : data.tensors) {
    if (tensor.meta.name == name) return tensor;
  }
  SW_CHECK(false);
}

ManifestData ManyTensors(int count) {
  ManifestData data;
  FileFiller file(data, "model.safetensors");
  for (int i = 0; i < count; ++i) {
    TensorEntry tensor{
        Meta(absl::StrFormat("blocks.%07d.attention.weight", i), DType::kFloat32, {4}, Role::kParameter), "", {}};
    tensor.shards = {file.Add(tensor.meta, Box::Whole({4}))};
    data.tensors.push_back(std::move(tensor));
  }
  return data;
}

}  // namespace shardwright::testing
