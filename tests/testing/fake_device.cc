#include "shardwright/tests/testing/fake_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <utility>

#include "shardwright/core/base/check.h"

namespace shardwright::testing {
namespace {

char* Map(int file, uint64_t bytes, int protection) {
  void* const data = ::mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
  SW_CHECK(data != MAP_FAILED);
  return static_cast<char*>(data);
}

}  // namespace

class FakeDevice::Stream final : public CopyStream {
 public:
  explicit Stream(FakeDevice& device) : device_(device) {}
  ~Stream() override { Run(); }

  absl::Status WaitFor(CUstream_st* stream) override { return absl::OkStatus(); }

  absl::Status CopyToHost(const void* device, void* host, uint64_t bytes) override {
    return Ask(
        {.to = static_cast<char*>(host), .from = device_.HostView(static_cast<const char*>(device)), .bytes = bytes});
  }

  absl::Status CopyToDevice(const void* host, void* device, uint64_t bytes) override {
    return Ask(
        {.to = device_.HostView(static_cast<char*>(device)), .from = static_cast<const char*>(host), .bytes = bytes});
  }

  absl::Status Synchronize() override {
    {
      absl::MutexLock lock(&device_.mu_);
      if (absl::Status failure = device_.CountCall(); !failure.ok()) return failure;
    }
    Run();
    return absl::OkStatus();
  }

 private:
  absl::Status Ask(const Copy& copy) {
    {
      absl::MutexLock lock(&device_.mu_);
      if (absl::Status failure = device_.CountCall(); !failure.ok()) return failure;
      ++device_.pending_copies_;
      device_.pending_bytes_ += copy.bytes;
    }
    copies_.push_back(copy);
    if (device_.when_ == CopiesHappen::kAtOnce) Run();
    return absl::OkStatus();
  }

  void Run() {
    absl::MutexLock lock(&device_.mu_);
    for (const Copy& copy : copies_) {
      std::memcpy(copy.to, copy.from, copy.bytes);
      --device_.pending_copies_;
      device_.pending_bytes_ -= copy.bytes;
      device_.copied_bytes_ += copy.bytes;
    }
    copies_.clear();
  }

  FakeDevice& device_;
  std::vector<Copy> copies_;
};

FakeDevice::FakeDevice(uint64_t bytes, CopiesHappen when) : bytes_(bytes), when_(when) {
  const int file = ::memfd_create("fake_device", 0);
  SW_CHECK(file >= 0);
  SW_CHECK(::ftruncate(file, static_cast<off_t>(bytes)) == 0);
  device_view_ = Map(file, bytes, PROT_NONE);
  host_view_ = Map(file, bytes, PROT_READ | PROT_WRITE);
  ::close(file);
}

FakeDevice::~FakeDevice() {
  ::munmap(device_view_, bytes_);
  ::munmap(host_view_, bytes_);
}

LocalState FakeDevice::Upload(const LocalState& host) {
  absl::MutexLock lock(&mu_);
  LocalState state = host;
  std::map<const char*, char*> uploaded;  // aliases share memory there, too
  for (LocalTensor& tensor : state) {
    tensor.device = Device::Cuda(0);
    if (tensor.box.empty()) continue;
    const auto [address, is_new] = uploaded.emplace(tensor.data, device_view_ + allocated_bytes_);
    if (is_new) {
      const auto bytes = static_cast<uint64_t>(tensor.bytes());
      SW_CHECK(allocated_bytes_ + bytes <= bytes_);
      std::memcpy(host_view_ + allocated_bytes_, tensor.data, bytes);
      allocated_bytes_ += (bytes + 15) / 16 * 16;
    }
    tensor.data = address->second;
  }
  return state;
}

absl::Span<char> FakeDevice::BytesOf(const LocalTensor& tensor) const {
  if (tensor.box.empty()) return {};
  return {HostView(tensor.data), static_cast<size_t>(tensor.bytes())};
}

std::unique_ptr<CopyStream> FakeDevice::MakeStream() {
  return std::make_unique<Stream>(*this);
}

DeviceStaging FakeDevice::MakeStaging(uint64_t window_bytes) {
  DeviceStaging staging;
  for (HostBuffer& buffer : staging.buffers) {
    absl::StatusOr<HostBuffer> allocated = HostBuffer::Allocate(window_bytes);
    SW_CHECK(allocated.ok());
    buffer = *std::move(allocated);
  }
  staging.copies = MakeStream();
  return staging;
}

void FakeDevice::FailCall(int64_t call) {
  absl::MutexLock lock(&mu_);
  calls_until_failure_ = call;
}

absl::Status FakeDevice::CountCall() {
  if (calls_until_failure_ < 0 || calls_until_failure_-- > 0) return absl::OkStatus();
  return absl::InternalError("copying from or to cuda:0: the fake device failed");
}

char* FakeDevice::HostView(const char* address) const {
  SW_CHECK(address >= device_view_ && address < device_view_ + bytes_);
  return host_view_ + (address - device_view_);
}

int64_t FakeDevice::pending_copies() const {
  absl::MutexLock lock(&mu_);
  return pending_copies_;
}

uint64_t FakeDevice::pending_bytes() const {
  absl::MutexLock lock(&mu_);
  return pending_bytes_;
}

uint64_t FakeDevice::copied_bytes() const {
  absl::MutexLock lock(&mu_);
  return copied_bytes_;
}

}  // namespace shardwright::testing
