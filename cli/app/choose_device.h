// Where a rank's tensors go.
#ifndef SHARDWRIGHT_CLI_APP_CHOOSE_DEVICE_H_
#define SHARDWRIGHT_CLI_APP_CHOOSE_DEVICE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/device/device.h"

namespace shardwright::app {

// What ParseDevice understands, for one of a machine's ranks. For a GPU that is not there, or in a build without CUDA,
// the error of cuda.h.
absl::StatusOr<Device> ChooseDevice(absl::string_view text, int32_t local_rank, int32_t local_world_size);

}  // namespace shardwright::app

#endif  // SHARDWRIGHT_CLI_APP_CHOOSE_DEVICE_H_
