// Text from a checkpoint: builds the model that the run's configuration names, loads its weights, continues a prompt.
#ifndef SHARDWRIGHT_CLI_APP_SAMPLE_H_
#define SHARDWRIGHT_CLI_APP_SAMPLE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "shardwright/cli/app/tables.h"
#include "shardwright/core/checkpoint/checkpoint_io.h"

namespace shardwright::app {

struct SampleOptions {
  std::string path;  // a checkpoint, or a run's directory
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest
  uint64_t seed = 1;
  CheckLevel check = CheckLevel::kFull;
  std::string device = "auto";  // as TrainOptions
};

struct Sample {
  std::string checkpoint;
  std::string text;  // prompt and what follows it
};

// kFailedPrecondition if the checkpoint does not say what model it is of.
absl::StatusOr<Sample> GenerateSample(const SampleOptions& options, const TrainTables& tables);

}  // namespace shardwright::app

#endif  // SHARDWRIGHT_CLI_APP_SAMPLE_H_
