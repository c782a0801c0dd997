// A byte-level GPT in the manner of GPT-2 and minGPT: the model to start from and to copy. The code in gpt.cc is the
// example.
#ifndef SHARDWRIGHT_CORE_MODELS_GPT_H_
#define SHARDWRIGHT_CORE_MODELS_GPT_H_

#include "shardwright/core/module/module.h"

namespace shardwright {

ModelFactory GptFactory();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODELS_GPT_H_
