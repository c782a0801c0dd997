#include "shardwright/core/device/device.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace shardwright {

std::string Device::ToString() const {
  return is_cuda() ? absl::StrCat("cuda:", index) : "cpu";
}

absl::StatusOr<Device> ParseDevice(absl::string_view text, const DeviceSurroundings& surroundings) {
  const Device own = Device::Cuda(surroundings.local_rank);
  if (text == "cpu") return Device{};
  if (text == "cuda") return own;
  if (text == "auto") return surroundings.cuda_devices >= surroundings.local_world_size ? own : Device{};
  int32_t index = 0;
  absl::string_view number = text;
  // SimpleAtoi alone would take "+1" and "1 ", too.
  if (absl::ConsumePrefix(&number, "cuda:") && std::all_of(number.begin(), number.end(), absl::ascii_isdigit) &&
      absl::SimpleAtoi(number, &index)) {
    return Device::Cuda(index);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", text, "\": want cpu, cuda, cuda:<index> such as cuda:0, or auto"));
}

}  // namespace shardwright
