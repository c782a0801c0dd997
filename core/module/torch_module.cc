#include "shardwright/core/module/torch_module.h"

#include <c10/core/GradMode.h>

#include "absl/container/flat_hash_map.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/module/torch_device.h"

namespace shardwright {
namespace {

// Walks the tree by itself: torch's own recursion needs the root to be held by a shared_ptr, which a model under
// construction is not.
class Collector {
 public:
  void Parameters(const torch::nn::Module& module, const std::string& prefix) {
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      Add(prefix + item.key(), item.value(), Role::kParameter, item.value().requires_grad());
    }
    for (const auto& child : module.named_children()) Parameters(*child.value(), prefix + child.key() + ".");
  }

  void Buffers(const torch::nn::Module& module, const std::string& prefix) {
    for (const auto& item : module.named_buffers(/*recurse=*/false)) {
      Add(prefix + item.key(), item.value(), Role::kBuffer, /*trainable=*/false);
    }
    for (const auto& child : module.named_children()) Buffers(*child.value(), prefix + child.key() + ".");
  }

  std::vector<NamedTorchTensor> Take() { return std::move(tensors_); }

 private:
  void Add(std::string name, const at::Tensor& tensor, Role role, bool trainable) {
    const auto [first, is_new] = first_names_.emplace(tensor.unsafeGetTensorImpl(), name);
    NamedTorchTensor named;
    named.meta.name = std::move(name);
    named.meta.dtype = ToDType(tensor.scalar_type());
    named.meta.shape = tensor.sizes().vec();
    named.meta.role = role;
    named.meta.trainable = trainable;
    named.tensor = tensor;
    if (!is_new) named.alias_of = first->second;
    tensors_.push_back(std::move(named));
  }

  absl::flat_hash_map<const void*, std::string> first_names_;
  std::vector<NamedTorchTensor> tensors_;
};

struct DTypePair {
  DType dtype;
  at::ScalarType scalar_type;
};
constexpr DTypePair kDTypes[] = {
    {DType::kBool, at::ScalarType::Bool},
    {DType::kUInt8, at::ScalarType::Byte},
    {DType::kInt8, at::ScalarType::Char},
    {DType::kUInt16, at::ScalarType::UInt16},
    {DType::kInt16, at::ScalarType::Short},
    {DType::kUInt32, at::ScalarType::UInt32},
    {DType::kInt32, at::ScalarType::Int},
    {DType::kUInt64, at::ScalarType::UInt64},
    {DType::kInt64, at::ScalarType::Long},
    {DType::kFloat16, at::ScalarType::Half},
    {DType::kBFloat16, at::ScalarType::BFloat16},
    {DType::kFloat32, at::ScalarType::Float},
    {DType::kFloat64, at::ScalarType::Double},
    {DType::kFloat8E4M3, at::ScalarType::Float8_e4m3fn},
    {DType::kFloat8E5M2, at::ScalarType::Float8_e5m2},
    {DType::kFloat8E8M0, at::ScalarType::Float8_e8m0fnu},
    {DType::kComplex64, at::ScalarType::ComplexFloat},
    {DType::kFloat8E4M3FNUZ, at::ScalarType::Float8_e4m3fnuz},
    {DType::kFloat8E5M2FNUZ, at::ScalarType::Float8_e5m2fnuz},
};

}  // namespace

std::map<std::string, double> TorchModule::ValidationStep(const Batch& batch) {
  return {{"val_loss", TrainingStep(batch).item<double>()}};
}

std::vector<NamedTorchTensor> NamedTensors(torch::nn::Module& module) {
  Collector collector;
  collector.Parameters(module, "");
  collector.Buffers(module, "");
  return collector.Take();
}

void MoveToDevice(torch::nn::Module& module, const Device& device) {
  c10::NoGradGuard no_grad;
  const c10::Device target = ToTorchDevice(device);
  for (const NamedTorchTensor& named : NamedTensors(module)) {
    if (named.tensor.device() != target) named.tensor.set_data(named.tensor.to(target));
  }
}

TorchModule& AsTorchModule(Module& module) {
  auto* torch_module = dynamic_cast<TorchModule*>(&module);
  SW_CHECK(torch_module != nullptr);
  return *torch_module;
}

DType ToDType(at::ScalarType type) {
  for (const DTypePair& pair : kDTypes) {
    if (pair.scalar_type == type) return pair.dtype;
  }
  return DType::kInvalid;
}

at::ScalarType ToScalarType(DType dtype) {
  for (const DTypePair& pair : kDTypes) {
    if (pair.dtype == dtype) return pair.scalar_type;
  }
  return at::ScalarType::Undefined;
}

LocalTensor ToLocalTensor(const TensorMeta& meta, const Box& box, const at::Tensor& tensor) {
  LocalTensor local;
  local.meta = meta;
  local.box = box;
  local.device = ToDevice(tensor.device());
  if (box.empty()) return local;
  SW_CHECK((tensor.is_cpu() || tensor.is_cuda()) && tensor.is_contiguous() && tensor.numel() == box.elements());
  local.data = static_cast<char*>(tensor.mutable_data_ptr());
  return local;
}

}  // namespace shardwright
