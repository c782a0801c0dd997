#include "shardwright/tests/testing/state_maker.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace shardwright::testing {
namespace {

template <typename T>
std::string RawBytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

using MadeByName = absl::flat_hash_map<absl::string_view, const MadeTensor*>;

MadeByName IndexByName(const std::vector<MadeTensor>& tensors) {
  MadeByName by_name;
  for (const MadeTensor& tensor : tensors) by_name.emplace(tensor.meta.name, &tensor);
  return by_name;
}

}  // namespace

TensorMeta Meta(absl::string_view name, DType dtype, Shape shape, Role role) {
  TensorMeta meta;
  meta.name = std::string(name);
  meta.dtype = dtype;
  meta.shape = std::move(shape);
  meta.role = role;
  return meta;
}

TensorMeta StateMeta(absl::string_view parameter, absl::string_view slot, DType dtype, Shape shape) {
  const OptimizerField field{0, std::string(parameter), std::string(slot)};
  TensorMeta meta = Meta(OptimizerTensorName(field), dtype, std::move(shape), Role::kOptimizer);
  meta.optimizer = field;
  return meta;
}

MadeTensor Make(const TensorMeta& meta, std::mt19937_64& random) {
  MadeTensor made{meta, "", std::string(static_cast<size_t>(meta.bytes()), '\0')};
  for (char& byte : made.bytes) byte = static_cast<char>(random());
  return made;
}

std::vector<MadeTensor> AwkwardTensors() {
  std::mt19937_64 random(7);
  std::vector<MadeTensor> made;
  made.push_back(Make(Meta("block.0.weight", DType::kFloat32, {17, 9}), random));
  made.push_back(Make(Meta("block.0.bias", DType::kBFloat16, {13}), random));
  made.push_back(Make(Meta("block.1.weight", DType::kFloat32, {70, 333}), random));
  made.push_back(Make(Meta("scalar", DType::kFloat32, {}), random));
  made.push_back(Make(Meta("one", DType::kFloat64, {1}), random));
  made.push_back(Make(Meta("none", DType::kFloat32, {0}), random));
  made.push_back(Make(Meta("hollow", DType::kInt64, {3, 0, 2}), random));
  made.push_back(Make(Meta("cube", DType::kFloat16, {5, 3, 7}), random));
  made.push_back(Make(Meta("flags", DType::kBool, {11}), random));
  made.push_back(Make(Meta("tokens", DType::kUInt16, {3, 5}), random));
  made.push_back(Make(Meta("eights", DType::kFloat8E4M3, {19}), random));
  made.push_back(Make(Meta("spectrum", DType::kComplex64, {4, 3}), random));
  made.push_back(Make(Meta("mask", DType::kFloat32, {6, 6}, Role::kBuffer), random));
  made.push_back(Make(Meta("wte", DType::kFloat32, {64, 16}), random));
  made.push_back({Meta("nan", DType::kBFloat16, {4}), "", RawBytes<uint16_t>({0x7fc1, 0xff81, 0x8000, 0x7f80})});
  made.push_back({Meta("minus_zero", DType::kFloat32, {2}), "", RawBytes<uint32_t>({0x80000000u, 0x7fa00001u})});
  made.push_back({Meta("lm_head", DType::kFloat32, {64, 16}), "wte", ""});
  MadeTensor frozen = Make(Meta("frozen", DType::kFloat32, {8, 3}), random);
  frozen.meta.trainable = false;
  made.push_back(std::move(frozen));
  for (const char* slot : {"exp_avg", "exp_avg_sq"}) {
    made.push_back(Make(StateMeta("block.0.weight", slot, DType::kFloat32, {17, 9}), random));
    made.push_back(Make(StateMeta("wte", slot, DType::kFloat32, {64, 16}), random));
  }
  made.push_back(Make(StateMeta("block.0.weight", "step", DType::kFloat32, {}), random));
  return made;
}

std::vector<MadeTensor> RandomTensors(std::mt19937_64& random, int count, int64_t largest_bytes) {
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kInt64, DType::kUInt8, DType::kFloat64};
  std::vector<MadeTensor> made;
  for (int i = 0; i < count; ++i) {
    const DType dtype = dtypes[random() % 5];
    int64_t left = largest_bytes / ItemSize(dtype);
    Shape shape;
    for (int rank = static_cast<int>(random() % 4); rank > 0; --rank) {
      shape.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(std::min<int64_t>(left, 300) + 1)));
      left /= std::max<int64_t>(1, shape.back());
    }
    const std::string name = absl::StrCat("t", random() % 100000, ".", i);
    const uint64_t kind = random() % 3;
    made.push_back(Make(kind == 0   ? StateMeta(name, "exp_avg", dtype, shape)
                        : kind == 1 ? Meta(name, dtype, shape, Role::kBuffer)
                                    : Meta(name, dtype, shape),
                        random));
  }
  return made;
}

std::vector<SaveTensor> ToSave(const std::vector<MadeTensor>& tensors) {
  std::vector<SaveTensor> save;
  for (const MadeTensor& tensor : tensors) save.push_back(SaveTensor{tensor.meta, tensor.alias_of});
  return save;
}

std::vector<TensorMeta> Wanted(const std::vector<MadeTensor>& tensors) {
  std::vector<TensorMeta> wanted;
  for (const MadeTensor& tensor : tensors) {
    if (tensor.alias_of.empty()) wanted.push_back(tensor.meta);
  }
  return wanted;
}

void RankState::Allocate(const std::vector<MadeTensor>& tensors, PlacementRule rule, int32_t rank, int32_t world_size) {
  for (const MadeTensor& tensor : tensors) {
    if (!tensor.alias_of.empty()) continue;
    LocalTensor local{tensor.meta, rule(tensor.meta, rank, world_size), nullptr, ""};
    if (!local.box.empty()) {
      memory_.push_back(std::make_unique<char[]>(static_cast<size_t>(local.bytes())));
      local.data = memory_.back().get();
    }
    state_.push_back(std::move(local));
  }
  for (const MadeTensor& tensor : tensors) {
    if (tensor.alias_of.empty()) continue;
    for (const LocalTensor& target : LocalState(state_)) {
      if (target.meta.name == tensor.alias_of) {
        state_.push_back(LocalTensor{tensor.meta, target.box, target.data, tensor.alias_of});
      }
    }
  }
}

RankState::RankState(const std::vector<MadeTensor>& tensors, PlacementRule rule, int32_t rank, int32_t world_size) {
  Allocate(tensors, rule, rank, world_size);
  const MadeByName by_name = IndexByName(tensors);
  for (LocalTensor& local : state_) {
    if (!local.alias_of.empty() || local.box.empty()) continue;
    const std::string bytes = BoxBytes(*by_name.at(local.meta.name), local.box);
    std::memcpy(local.data, bytes.data(), bytes.size());
  }
}

RankState::RankState(const std::vector<MadeTensor>& tensors, PlacementRule rule, int32_t rank, int32_t world_size,
                     char poison) {
  Allocate(tensors, rule, rank, world_size);
  for (LocalTensor& local : state_) {
    if (!local.box.empty()) std::memset(local.data, poison, static_cast<size_t>(local.bytes()));
  }
}

std::vector<std::string> RankState::Differences(const std::vector<MadeTensor>& tensors) const {
  const MadeByName by_name = IndexByName(tensors);
  std::vector<std::string> names;
  for (const LocalTensor& local : state_) {
    if (local.box.empty()) continue;
    const auto made = by_name.find(local.alias_of.empty() ? local.meta.name : local.alias_of);
    const std::string held(local.data, static_cast<size_t>(local.bytes()));
    if (made == by_name.end() || held != BoxBytes(*made->second, local.box)) names.push_back(local.meta.name);
  }
  return names;
}

std::string RankState::AllBytes() const {
  std::string bytes;
  for (const LocalTensor& local : state_) {
    if (!local.box.empty() && local.alias_of.empty()) bytes.append(local.data, static_cast<size_t>(local.bytes()));
  }
  return bytes;
}

std::string BoxBytes(const MadeTensor& tensor, const Box& box) {
  std::string bytes(static_cast<size_t>(tensor.meta.BytesOf(box)), '\0');
  if (bytes.empty()) return bytes;
  CopyBox(tensor.bytes.data(), Box::Whole(tensor.meta.shape), bytes.data(), box, box, ItemSize(tensor.meta.dtype));
  return bytes;
}

}  // namespace shardwright::testing
