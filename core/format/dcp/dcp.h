// Checkpoints of torch.distributed.checkpoint: .metadata beside files of items, each a small torch archive.
//
//   .metadata         pickle: tensors, their chunks, and where each chunk lies
//   __0_0.distcp      [archive][archive]...     one per rank and thread, or one per item
//
// With meta.pt beside it, it is Lightning's; with metadata.json and common.pt, Megatron's.
#ifndef SHARDWRIGHT_CORE_FORMAT_DCP_DCP_H_
#define SHARDWRIGHT_CORE_FORMAT_DCP_DCP_H_

#include "shardwright/core/format/format.h"

namespace shardwright {

// Chunks become shards that point into the items. Compressed and strided ones are computed: of a compressed one, a read
// holds the whole chunk in memory.
CheckpointFormat DcpFormat();

// The flavour that HuggingFaceStorageWriter writes: safetensors files with the chunks' offsets in their metadata.
CheckpointFormat DcpHuggingFaceFormat();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_DCP_DCP_H_
