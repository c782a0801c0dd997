// A safetensors file as a checkpoint.
#ifndef SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_SAFETENSORS_H_
#define SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_SAFETENSORS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/format.h"
#include "shardwright/core/format/safetensors/header.h"

namespace shardwright {

// Its metadata become extras.
CheckpointFormat SafetensorsFormat();

namespace safetensors {

struct OpenedFile {
  uint32_t file = 0;  // index in the builder
  OpenedHeader opened;
};
// Opens a file of the builder's folder and reads its header.
absl::StatusOr<OpenedFile> OpenFile(CheckpointBuilder& builder, absl::string_view relative_path);

// An entry as a piece, at `box` of the tensor that it is (a part of).
Piece PieceOf(const OpenedFile& file, const Entry& entry, Box box);

// What a state dict is: weights, and buffers as far as one can tell.
TensorMeta WeightMeta(absl::string_view name, DType dtype, Shape shape);

}  // namespace safetensors
}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_SAFETENSORS_SAFETENSORS_H_
