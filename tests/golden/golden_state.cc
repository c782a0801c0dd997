#include "shardwright/tests/golden/golden_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shardwright::testing {
namespace {

GoldenTensor Tensor(const std::string& name, DType dtype, const Shape& shape, Role role) {
  GoldenTensor tensor;
  tensor.meta.name = name;
  tensor.meta.dtype = dtype;
  tensor.meta.shape = shape;
  tensor.meta.role = role;
  return tensor;
}

GoldenTensor State(const std::string& parameter, const std::string& slot, const Shape& shape) {
  const OptimizerField field = {0, parameter, slot};
  GoldenTensor tensor = Tensor(OptimizerTensorName(field), DType::kFloat32, shape, Role::kOptimizer);
  tensor.meta.optimizer = field;
  return tensor;
}

}  // namespace

std::vector<GoldenTensor> GoldenTensors() {
  std::vector<GoldenTensor> tensors = {
      Tensor("embed.weight", DType::kBFloat16, {5, 3}, Role::kParameter),  // rows that two ranks share unevenly
      Tensor("head.weight", DType::kBFloat16, {5, 3}, Role::kParameter),   // tied
      Tensor("norm.scale", DType::kFloat32, {1}, Role::kParameter),        // one of the ranks has nothing of it
      Tensor("unused", DType::kFloat32, {0, 4}, Role::kParameter),
      Tensor("table", DType::kUInt8, {140000}, Role::kParameter),  // shards of several chunks
      Tensor("counter", DType::kInt64, {}, Role::kBuffer),
      Tensor("mask", DType::kBool, {2, 3}, Role::kBuffer),
      Tensor("name@1,0 \xC3\xA9\"\\", DType::kFloat16, {2, 2}, Role::kBuffer),
      State("embed.weight", "exp_avg", {5, 3}),
      State("embed.weight", "exp_avg_sq", {5, 3}),
      State("embed.weight", "step", {}),
  };
  tensors[1].alias_of = "embed.weight";
  tensors[2].meta.trainable = false;
  std::sort(tensors.begin(), tensors.end(),
            [](const GoldenTensor& a, const GoldenTensor& b) { return a.meta.name < b.meta.name; });
  return tensors;
}

std::string GoldenBytes(const GoldenTensor& tensor) {
  const std::string& name = tensor.alias_of.empty() ? tensor.meta.name : tensor.alias_of;
  const int modulus = tensor.meta.dtype == DType::kBool ? 2 : 251;
  std::string bytes(tensor.meta.bytes(), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>((31 * i + 7 * name.size() + static_cast<uint8_t>(name.back())) % modulus);
  }
  return bytes;
}

TrainingProgress GoldenProgress() {
  return {200, 3, 6400};
}
Topology GoldenTopology() {
  return {kGoldenWorldSize, kGoldenWorldSize, kGoldenStrategy, 1};
}
LoadOrder GoldenLoadOrder() {
  return {LoadMode::kSerialized, 1, 1 << 20};
}

Value::Map GoldenExtras() {
  return {{"bool", true},
          {"bytes", Bytes{std::string("\x00\xff\x80", 3)}},
          {"class", OpaqueObject{"argparse.Namespace"}},
          {"double", -1.5e300},
          {"int", int64_t{-42}},
          {"list", Value::List{1, "two", Value::List{}, Value()}},
          {"map", Value::Map{{"betas", Value::List{0.9, 0.999}}, {"empty", Value::Map{}}}},
          {"tensor", TensorReference{"embed.weight"}},
          {"text", "gr\xC3\xBC\xC3\x9F\n"}};
}

Value::Map GoldenRankExtras(int32_t rank) {
  return {{"rng", Bytes{absl::StrCat("state of rank ", rank)}}};
}

}  // namespace shardwright::testing
