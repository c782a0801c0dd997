#include "shardwright/callbacks/callbacks.h"

#include "shardwright/callbacks/model_checkpoint.h"
#include "shardwright/callbacks/progress.h"

namespace shardwright {

CallbackTable BuiltinCallbacks() {
  return CallbackTable("callback", {
                                       {"model_checkpoint", &MakeModelCheckpoint},
                                       {"progress", &MakeProgress},
                                   });
}

}  // namespace shardwright
