// A single file of torch.save as a checkpoint.
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_SAVED_OBJECT_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_SAVED_OBJECT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/format.h"
#include "shardwright/core/format/torch/naming.h"
#include "shardwright/core/format/torch/torch_pieces.h"

namespace shardwright::torch_format {

// Adds every tensor of the file to the builder, and everything else to its extras. Tensors of the run's state are
// referred to from the extras. Rules without a name rule are GenericWeights. kUnimplemented for one rank's part of
// distributed tensors.
absl::Status AddSavedObject(CheckpointBuilder& builder, const PlacedFile& file, WeightRules rules);

// The file at `path`, alone.
absl::StatusOr<OpenedCheckpoint> OpenSavedObject(Storage& storage, absl::string_view path, absl::string_view format,
                                                 WeightRules rules);

}  // namespace shardwright::torch_format

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_SAVED_OBJECT_H_
