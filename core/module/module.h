// Module: what a strategy trains, without torch in sight: an opaque model that a factory made. The torch adapter
// (torch_module.h) is what authors write and what the concrete strategies see.
#ifndef SHARDWRIGHT_CORE_MODULE_MODULE_H_
#define SHARDWRIGHT_CORE_MODULE_MODULE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shardwright/core/base/table.h"
#include "shardwright/core/manifest/value.h"
#include "shardwright/core/plan/load_view.h"

namespace shardwright {

// Samples of one forward pass, as bytes of tokens: `tokens` holds samples * sample_tokens values, row-major.
struct Batch {
  int64_t samples = 0;
  int64_t sample_tokens = 0;
  std::vector<int32_t> tokens;
};

// "n_layer" -> "4": a model's own options, as its author names them. Unknown names are an error of the factory.
using ModelOptions = std::map<std::string, std::string>;

// Single-threaded. The concrete type is behind the torch fence; strategies cast it with AsTorchModule.
class Module {
 public:
  virtual ~Module() = default;
  // Hooks, called by the strategy alone: once per load and rank before anything is planned, once per captured step.
  virtual absl::Status OnLoadCheckpoint(LoadView& view) { return absl::OkStatus(); }
  virtual absl::Status OnSaveCheckpoint(Value::Map& extras) { return absl::OkStatus(); }
  // Tokens that a sample must have (context + 1 for a language model).
  virtual int64_t sample_tokens() const = 0;
  // One line for people: "gpt 0.8M".
  virtual std::string Describe() const = 0;
  // Continues `prompt` by `count` tokens, greedily (temperature 0) or at a temperature; returns prompt and
  // continuation. kUnimplemented where the model generates nothing.
  virtual absl::StatusOr<std::vector<int32_t>> Generate(const std::vector<int32_t>& prompt, int64_t count,
                                                        double temperature, uint64_t seed) {
    return absl::UnimplementedError("this model does not generate");
  }
};

struct ModelFactory {
  std::function<absl::StatusOr<std::unique_ptr<Module>>(const ModelOptions& options)> make;
  ModelOptions defaults;  // every option the model knows, with its default; --model_options names these
  std::string help;       // one line
};
using ModelTable = Table<ModelFactory>;

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODULE_MODULE_H_
