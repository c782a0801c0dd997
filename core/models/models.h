// The models that come with the project, by the name that --model takes.
#ifndef SHARDWRIGHT_CORE_MODELS_MODELS_H_
#define SHARDWRIGHT_CORE_MODELS_MODELS_H_

#include "shardwright/core/module/module.h"

namespace shardwright {

ModelTable BuiltinModels();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODELS_MODELS_H_
