// PyTorch Lightning's checkpoints: the .ckpt file, a torch zip of a dict, and the folder that sharded strategies write,
// a distributed checkpoint beside meta.pt.
#ifndef SHARDWRIGHT_CORE_FORMAT_LIGHTNING_LIGHTNING_H_
#define SHARDWRIGHT_CORE_FORMAT_LIGHTNING_LIGHTNING_H_

#include "shardwright/core/format/format.h"

namespace shardwright {

// Weights under the names that the module gives them, without "state_dict."; optimizer state under its parameters'
// names.
CheckpointFormat LightningFormat();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_LIGHTNING_LIGHTNING_H_
