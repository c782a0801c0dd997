#include "shardwright/core/tensor/device_tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/check.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

void CheckStaging(const DeviceStaging& staging) {
  SW_CHECK(staging.copies != nullptr);
  SW_CHECK(staging.buffers[0].size_bytes() > 0);
  SW_CHECK(staging.buffers[0].size_bytes() == staging.buffers[1].size_bytes());
}

// The first tensor in a GPU's memory; null if there is none.
const LocalTensor* FindOnDevice(const LocalState& state) {
  const auto found = std::find_if(state.begin(), state.end(), [](const LocalTensor& t) { return t.device.is_cuda(); });
  return found == state.end() ? nullptr : &*found;
}

// Buffers no larger than the largest tensor.
uint64_t WindowBytes(const LocalState& state) {
  int64_t largest = 1;
  for (const LocalTensor& tensor : state) {
    if (tensor.device.is_cuda()) largest = std::max(largest, tensor.bytes());
  }
  return std::min(kDeviceWindowBytes, static_cast<uint64_t>(largest));
}

absl::StatusOr<DeviceStaging> MakeStaging(const LocalState& state, const Device& device, MemoryBudget& budget) {
  const uint64_t window_bytes = WindowBytes(state);
  DeviceStaging staging;
  SW_ASSIGN_OR_RETURN(staging.reservation,
                      budget.Reserve(2 * window_bytes, absl::StrCat("staging tensors of ", device.ToString())));
  for (HostBuffer& buffer : staging.buffers) {
    SW_ASSIGN_OR_RETURN(buffer, AllocatePinned(window_bytes), _ << "staging tensors of " << device.ToString());
  }
  SW_ASSIGN_OR_RETURN(staging.copies, MakeCopyStream(device.index), _ << "staging tensors of " << device.ToString());
  return staging;
}

}  // namespace

DeviceSource::DeviceSource(const LocalState& state, DeviceStaging staging)
    : index_(state), staging_(std::move(staging)) {
  CheckStaging(staging_);
}

absl::Status DeviceSource::Read(absl::string_view name, const Box& box, absl::Span<char> out) const {
  SW_ASSIGN_OR_RETURN(const LocalTensor* tensor, index_.Lookup(name, box, out.size()), _ << "reading");
  if (out.empty()) return absl::OkStatus();
  const int64_t item = ItemSize(tensor->meta.dtype);
  if (!tensor->device.is_cuda()) {
    CopyBox(tensor->data, tensor->box, out.data(), box, box, item);
    return absl::OkStatus();
  }
  absl::MutexLock lock(&mu_);
  absl::Status status;
  ForEachRun(tensor->box, box, [&](int64_t tensor_offset, int64_t elements, int64_t box_offset) {
    mu_.AssertHeld();
    if (!status.ok()) return;
    status = ReadRun(tensor->data + tensor_offset * item, tensor->data + tensor->bytes(),
                     out.subspan(box_offset * item, elements * item));
  });
  return Annotate(status, absl::StrCat("reading tensor \"", name, "\""));
}

// `end`: of the tensor.
absl::Status DeviceSource::ReadRun(const char* from, const char* end, absl::Span<char> out) const {
  while (!out.empty()) {
    SW_RETURN_IF_ERROR(Fetch(from, end));
    const Window& window = windows_[current_];
    const auto offset = static_cast<uint64_t>(from - window.begin);
    const uint64_t bytes = std::min<uint64_t>(out.size(), window.bytes - offset);
    std::memcpy(out.data(), staging_.buffers[current_].data() + offset, bytes);
    from += bytes;
    out.remove_prefix(bytes);
  }
  return absl::OkStatus();
}

// Afterwards the current window holds `address`, and what follows it is on its way.
absl::Status DeviceSource::Fetch(const char* address, const char* end) const {
  if (windows_[current_].Holds(address)) return absl::OkStatus();
  const size_t other = 1 - current_;
  const bool read_ahead = windows_[other].Holds(address);
  absl::Status fetched = read_ahead ? absl::OkStatus() : StartCopy(other, address, end);
  if (fetched.ok()) fetched = staging_.copies->Synchronize();
  if (fetched.ok()) {
    const char* const next = windows_[other].begin + windows_[other].bytes;
    fetched = StartCopy(current_, next, end);
    current_ = other;
  }
  if (!fetched.ok()) windows_ = {};
  return fetched;
}

// A copy under way into the same buffer ends before this one begins.
absl::Status DeviceSource::StartCopy(size_t buffer, const char* begin, const char* end) const {
  const HostBuffer& target = staging_.buffers[buffer];
  const uint64_t bytes = std::min(target.size_bytes(), static_cast<uint64_t>(end - begin));
  windows_[buffer] = {.begin = begin, .bytes = bytes};
  return bytes == 0 ? absl::OkStatus() : staging_.copies->CopyToHost(begin, target.data(), bytes);
}

DeviceSink::DeviceSink(const LocalState& state, DeviceStaging staging) : index_(state), staging_(std::move(staging)) {
  CheckStaging(staging_);
}

absl::Status DeviceSink::Write(absl::string_view name, const Box& box, absl::Span<const char> bytes) {
  SW_ASSIGN_OR_RETURN(const LocalTensor* tensor, index_.Lookup(name, box, bytes.size()), _ << "writing");
  if (bytes.empty()) return absl::OkStatus();
  if (!tensor->device.is_cuda()) {
    CopyBox(bytes.data(), box, tensor->data, tensor->box, box, ItemSize(tensor->meta.dtype));
    return absl::OkStatus();
  }
  absl::MutexLock lock(&mu_);
  if (first_error_.ok()) {
    first_error_ = Annotate(WriteBox(*tensor, box, bytes.data()), absl::StrCat("writing tensor \"", name, "\""));
  }
  return first_error_;
}

absl::Status DeviceSink::WriteBox(const LocalTensor& tensor, const Box& box, const char* bytes) {
  const int64_t item = ItemSize(tensor.meta.dtype);
  absl::Status status;
  ForEachRun(tensor.box, box, [&](int64_t tensor_offset, int64_t elements, int64_t box_offset) {
    mu_.AssertHeld();
    if (!status.ok()) return;
    status =
        WriteRun(tensor.data + tensor_offset * item, {bytes + box_offset * item, static_cast<size_t>(elements * item)});
  });
  return status;
}

absl::Status DeviceSink::WriteRun(char* to, absl::Span<const char> bytes) {
  while (!bytes.empty()) {
    if (used_bytes_ == staging_.buffers[current_].size_bytes()) {
      SW_RETURN_IF_ERROR(NextBuffer());
    }
    const absl::Span<char> room = staging_.buffers[current_].span().subspan(used_bytes_);
    const absl::Span<const char> piece = bytes.subspan(0, room.size());
    std::memcpy(room.data(), piece.data(), piece.size());
    SW_RETURN_IF_ERROR(staging_.copies->CopyToDevice(room.data(), to, piece.size()));
    under_way_[current_] = true;
    used_bytes_ += piece.size();
    to += piece.size();
    bytes.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

absl::Status DeviceSink::NextBuffer() {
  const size_t next = 1 - current_;
  if (under_way_[next]) {
    SW_RETURN_IF_ERROR(staging_.copies->Synchronize());
    under_way_ = {};
  }
  current_ = next;
  used_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status DeviceSink::Finish() {
  absl::MutexLock lock(&mu_);
  if (first_error_.ok()) first_error_ = staging_.copies->Synchronize();
  under_way_ = {};
  return first_error_;
}

absl::StatusOr<std::unique_ptr<TensorSource>> MakeTensorSource(const LocalState& state, MemoryBudget& budget) {
  const LocalTensor* const on_device = FindOnDevice(state);
  if (on_device == nullptr) return std::make_unique<LocalTensors>(state);
  SW_ASSIGN_OR_RETURN(DeviceStaging staging, MakeStaging(state, on_device->device, budget));
  return std::make_unique<DeviceSource>(state, std::move(staging));
}

absl::StatusOr<std::unique_ptr<TensorSink>> MakeTensorSink(const LocalState& state, MemoryBudget& budget) {
  const LocalTensor* const on_device = FindOnDevice(state);
  if (on_device == nullptr) return std::make_unique<LocalTensors>(state);
  SW_ASSIGN_OR_RETURN(DeviceStaging staging, MakeStaging(state, on_device->device, budget));
  return std::make_unique<DeviceSink>(state, std::move(staging));
}

}  // namespace shardwright
