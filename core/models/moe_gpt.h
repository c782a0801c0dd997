// The GPT of gpt.h with mixtures of experts for MLPs (moe_mlp.h), in all its blocks.
#ifndef SHARDWRIGHT_CORE_MODELS_MOE_GPT_H_
#define SHARDWRIGHT_CORE_MODELS_MOE_GPT_H_

#include "shardwright/core/module/module.h"

namespace shardwright {

ModelFactory MoeGptFactory();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODELS_MOE_GPT_H_
