// Files of torch.save: the zip archive since 1.6 (.pt, .pth, .bin), and the stream before it.
#ifndef SHARDWRIGHT_CORE_FORMAT_TORCH_ZIP_TORCH_ZIP_H_
#define SHARDWRIGHT_CORE_FORMAT_TORCH_ZIP_TORCH_ZIP_H_

#include "shardwright/core/format/format.h"

namespace shardwright {

CheckpointFormat TorchZipFormat();
CheckpointFormat TorchLegacyFormat();
// The tar archive of 2016: known, not read.
CheckpointFormat TorchTarFormat();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_TORCH_ZIP_TORCH_ZIP_H_
