#include "shardwright/cli/app/sample.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "shardwright/cli/app/choose_device.h"
#include "shardwright/cli/app/locate.h"
#include "shardwright/cli/app/train.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/comm/c10d.h"
#include "shardwright/core/storage/posix.h"
#include "shardwright/core/trainer/run_config.h"

namespace shardwright::app {
namespace {

absl::StatusOr<std::unique_ptr<Module>> MakeModule(const LocatedCheckpoint& checkpoint, const TrainTables& tables) {
  SW_ASSIGN_OR_RETURN(Value::Map config, FixedConfigOf(*checkpoint.manifest), _ << checkpoint.path);
  const std::string* model = config["model"].get_if<std::string>();
  const Value::Map* saved_options = config["model_options"].get_if<Value::Map>();
  if (model == nullptr || saved_options == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(checkpoint.path, ": does not say which model it is of"));
  }
  ModelOptions given;
  for (const auto& [name, value] : *saved_options) {
    if (const auto* text = value.get_if<std::string>()) given[name] = *text;
  }
  SW_ASSIGN_OR_RETURN(ModelFactory factory, tables.models.Find(*model), _ << checkpoint.path);
  SW_ASSIGN_OR_RETURN(ModelOptions complete, CompleteModelOptions(*model, factory, given));
  return factory.make(complete);
}

std::vector<int32_t> ToTokens(absl::string_view text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string ToText(const std::vector<int32_t>& tokens) {
  std::string text;
  for (const int32_t token : tokens) text.push_back(static_cast<char>(token));
  return text;
}

}  // namespace

absl::StatusOr<Sample> GenerateSample(const SampleOptions& options, const TrainTables& tables) {
  const std::unique_ptr<Storage> storage = MakePosixStorage();
  SW_ASSIGN_OR_RETURN(LocatedCheckpoint checkpoint, LocateCheckpoint(*storage, options.path));
  SW_ASSIGN_OR_RETURN(std::unique_ptr<Module> module, MakeModule(checkpoint, tables));
  SW_ASSIGN_OR_RETURN(const Device device, ChooseDevice(options.device, /*local_rank=*/0, /*local_world_size=*/1));
  SW_ASSIGN_OR_RETURN(CommGroups groups, ConnectC10d(RankEnvironment{}, {.data_device = device}));
  MemoryBudget budget;
  SW_ASSIGN_OR_RETURN(StrategyFactory make_strategy, tables.strategies.Find("single_device"));
  const std::unique_ptr<Strategy> strategy = make_strategy({}, {&groups, storage.get(), &budget, World{}, device});
  SW_RETURN_IF_ERROR(strategy->Setup(std::move(module)));
  LoadRequest request;
  request.path = checkpoint.path;
  request.weights_only = true;
  request.io.check = options.check;
  request.io.verify_first = false;
  SW_RETURN_IF_ERROR(strategy->Load(request));
  const std::string prompt = options.prompt.empty() ? "\n" : options.prompt;
  SW_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                      strategy->Generate(ToTokens(prompt), options.tokens, options.temperature, options.seed));
  return Sample{checkpoint.path, ToText(tokens)};
}

}  // namespace shardwright::app
