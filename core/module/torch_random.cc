#include "shardwright/core/module/torch_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shardwright/core/base/checksum.h"
#include "shardwright/core/module/call_torch.h"

namespace shardwright {
namespace {

constexpr char kGenerator[] = "torch_cpu";

std::mutex& BuildMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

at::Tensor GetState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void Seed(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace

Value::Map TorchRandomState() {
  const at::Tensor state = GetState();
  return {{kGenerator, Bytes{std::string(static_cast<const char*>(state.const_data_ptr()), state.nbytes())}}};
}

absl::Status SetTorchRandomState(const Value::Map& state) {
  const auto found = state.find(kGenerator);
  const auto* bytes = found == state.end() ? nullptr : found->second.get_if<Bytes>();
  if (bytes == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("random state has no bytes under \"", kGenerator, "\""));
  }
  const size_t expected = GetState().nbytes();
  if (bytes->data.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("random state \"", kGenerator, "\" has ", bytes->data.size(),
                                                   " bytes, this torch's has ", expected));
  }
  return CallTorch([&] {
    at::Tensor tensor = at::empty({static_cast<int64_t>(expected)}, at::TensorOptions(at::kByte));
    std::memcpy(tensor.mutable_data_ptr(), bytes->data.data(), expected);
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(tensor);
  });
}

void ReseedTorchRandom(uint64_t seed, int64_t step, int32_t rank) {
  // Hashed, so that neighbouring seeds, steps and ranks do not meet in one stream.
  Seed(HashContent(absl::MakeConstSpan(absl::StrCat(seed, "/", step, "/", rank))).low);
}

SeededTorchRandom::SeededTorchRandom(uint64_t seed) : lock_(BuildMutex()) {
  Seed(seed);
}

}  // namespace shardwright
