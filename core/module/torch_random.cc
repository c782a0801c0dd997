#include "shardwright/core/module/torch_random.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/module/call_torch.h"
#include "shardwright/core/module/torch_device.h"

namespace shardwright {
namespace {

std::mutex& BuildMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// A generator and the name that its state is kept under.
struct NamedGenerator {
  const char* name;
  at::Generator generator;
};

std::vector<NamedGenerator> GeneratorsOf(const Device& device) {
  std::vector<NamedGenerator> generators = {{"torch_cpu", at::globalContext().defaultGenerator(at::kCPU)}};
  if (device.is_cuda()) {
    generators.push_back({"torch_cuda", at::globalContext().defaultGenerator(ToTorchDevice(device))});
  }
  return generators;
}

at::Tensor GetState(at::Generator& generator) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void Seed(at::Generator generator, uint64_t seed) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

absl::Status SetState(NamedGenerator& named, const Value::Map& state) {
  const auto found = state.find(named.name);
  const auto* bytes = found == state.end() ? nullptr : found->second.get_if<Bytes>();
  if (bytes == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("random state has no bytes under \"", named.name, "\""));
  }
  // Every generator's state is a tensor of bytes in host memory.
  const size_t expected = GetState(named.generator).nbytes();
  if (bytes->data.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("random state \"", named.name, "\" has ", bytes->data.size(),
                                                   " bytes, this torch's has ", expected));
  }
  at::Tensor tensor = at::empty({static_cast<int64_t>(expected)}, at::TensorOptions(at::kByte));
  std::memcpy(tensor.mutable_data_ptr(), bytes->data.data(), expected);
  std::lock_guard<std::mutex> lock(named.generator.mutex());
  named.generator.set_state(tensor);
  return absl::OkStatus();
}

}  // namespace

Value::Map TorchRandomState(const Device& device) {
  Value::Map states;
  for (NamedGenerator& named : GeneratorsOf(device)) {
    const at::Tensor state = GetState(named.generator);
    states[named.name] = Bytes{std::string(static_cast<const char*>(state.const_data_ptr()), state.nbytes())};
  }
  return states;
}

absl::Status SetTorchRandomState(const Value::Map& state, const Device& device) {
  return CallTorch([&]() -> absl::Status {
    for (NamedGenerator& named : GeneratorsOf(device)) SW_RETURN_IF_ERROR(SetState(named, state));
    return absl::OkStatus();
  });
}

void ReseedTorchRandom(uint64_t seed, int64_t step, int32_t rank, const Device& device) {
  // Hashed, so that neighbouring seeds, steps and ranks do not meet in one stream.
  const uint64_t hashed = HashContent(absl::MakeConstSpan(absl::StrCat(seed, "/", step, "/", rank))).low;
  for (NamedGenerator& named : GeneratorsOf(device)) Seed(std::move(named.generator), hashed);
}

SeededTorchRandom::SeededTorchRandom(uint64_t seed) : lock_(BuildMutex()) {
  Seed(at::globalContext().defaultGenerator(at::kCPU), seed);
}

}  // namespace shardwright
