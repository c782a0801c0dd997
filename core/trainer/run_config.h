// What a checkpoint says about the run that wrote it, for those who build its model again.
#ifndef SHARDWRIGHT_CORE_TRAINER_RUN_CONFIG_H_
#define SHARDWRIGHT_CORE_TRAINER_RUN_CONFIG_H_

#include "absl/status/statusor.h"
#include "shardwright/core/manifest/manifest.h"

namespace shardwright {

// TrainerOptions::fixed_config of the run. kFailedPrecondition if no trainer wrote the checkpoint.
absl::StatusOr<Value::Map> FixedConfigOf(const Manifest& manifest);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_RUN_CONFIG_H_
