// Folders as the Hugging Face libraries write them: one model.safetensors or pytorch_model.bin, or several with an
// index.
#ifndef SHARDWRIGHT_CORE_FORMAT_HUGGINGFACE_HUGGINGFACE_H_
#define SHARDWRIGHT_CORE_FORMAT_HUGGINGFACE_HUGGINGFACE_H_

#include "shardwright/core/format/format.h"

namespace shardwright {

// The weights alone: what else lies in the folder (an optimizer, random states) is listed in a note.
CheckpointFormat HuggingFaceFormat();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_HUGGINGFACE_HUGGINGFACE_H_
