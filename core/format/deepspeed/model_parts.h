// What the weights of a DeepSpeed checkpoint are besides ZeRO's partitions: buffers, frozen and tied parameters.
#ifndef SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_MODEL_PARTS_H_
#define SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_MODEL_PARTS_H_

#include "absl/status/status.h"
#include "shardwright/core/format/checkpoint_builder.h"
#include "shardwright/core/format/deepspeed/zero_state.h"

namespace shardwright::deepspeed {

// The buffers among the module's tensors, unless there is a tensor of the name already.
void AddBuffers(CheckpointBuilder& builder, const ModelState& model);
// Whole frozen parameters, as stage 2 keeps them.
void AddFrozen(CheckpointBuilder& builder, const ModelState& model);
// Second names of parameters. kDataLoss if the first is not there.
absl::Status AddShared(CheckpointBuilder& builder, const ModelState& model);
// What else the module holds: the frozen parameters of stage 1.
void AddRest(CheckpointBuilder& builder, const ModelState& model);
// Extras, counters, and the optimizer's groups with the names of their parameters.
void AddExtras(CheckpointBuilder& builder, const ModelState& model, const Value& param_groups);

}  // namespace shardwright::deepspeed

#endif  // SHARDWRIGHT_CORE_FORMAT_DEEPSPEED_MODEL_PARTS_H_
