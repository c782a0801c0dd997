// What a checkpoint says beside its tensors.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_SAVE_CONTENT_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_SAVE_CONTENT_H_

#include "shardwright/core/manifest/manifest.h"

namespace shardwright {

struct SaveContent {
  TrainingProgress progress;
  Topology topology;
  LoadOrder load_order;
  Value::Map extras;       // rank 0's are kept
  Value::Map rank_extras;  // this rank's
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_SAVE_CONTENT_H_
