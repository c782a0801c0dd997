// Training as one call: options in, result out. Builds module, data, strategy, callbacks and trainer from the tables.
#ifndef SHARDWRIGHT_CLI_APP_TRAIN_H_
#define SHARDWRIGHT_CLI_APP_TRAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "shardwright/cli/app/tables.h"
#include "shardwright/core/comm/rank_environment.h"
#include "shardwright/core/trainer/trainer.h"

namespace shardwright::app {

struct TrainOptions {
  // Behaviour.
  std::string model = "gpt";
  ModelOptions model_options;     // over the model's defaults
  std::string data;               // file or folder of text
  std::string strategy = "auto";  // single_device for one rank, ddp for more
  std::string device = "auto";    // what ParseDevice understands
  std::string run_directory;
  std::vector<std::string> callbacks = {"model_checkpoint", "progress"};
  int64_t max_steps = 200;
  int64_t batch_size = 32;
  int64_t accumulate_steps = 1;
  uint64_t seed = 1;
  double clip_gradient_norm = 1.0;  // 0: none
  DType compute_dtype = DType::kFloat32;
  bool recompute_activations = false;
  std::string resume = "auto";
  std::string init_from;
  bool strict = true;
  CheckLevel check = CheckLevel::kFull;
  SaveLayout save_layout = SaveLayout::kSharded;
  CallbackOptions callback_options;
  absl::Duration timeout = absl::Minutes(10);  // of every wait for other ranks
  uint64_t host_memory_budget_bytes = 0;       // of a node, for transient memory; 0: 80 % of what is free
  // Kept as <run_directory>/flags by rank 0 once the run has started: how to call this run again.
  std::string flag_file;
};

// Everything that can be refused without other ranks: names, model options, data, divisibility. The launcher calls it
// before it starts any rank, so that a mistake is told once.
absl::Status CheckTrainOptions(const TrainOptions& options, const TrainTables& tables, int32_t world_size);

// Collective over the ranks of `environment`. `note` gets lines for people, on rank 0.
absl::StatusOr<TrainResult> Train(const TrainOptions& options, const TrainTables& tables,
                                  const RankEnvironment& environment, const NoteFunction& note);

// "n_layer=4,n_embd=128" -> map. kInvalidArgument naming the part that is not name=value.
absl::StatusOr<ModelOptions> ParseModelOptions(absl::string_view text);
// The model's defaults with `given` over them. kInvalidArgument with the nearest name for an unknown option.
absl::StatusOr<ModelOptions> CompleteModelOptions(absl::string_view model, const ModelFactory& factory,
                                                  const ModelOptions& given);

}  // namespace shardwright::app

#endif  // SHARDWRIGHT_CLI_APP_TRAIN_H_
