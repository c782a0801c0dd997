// Reads a model's options, given as text, against the defaults that its factory documents.
//
//   OptionReader options("gpt", given, GptDefaults());
//   config.n_layer = options.Int("n_layer", 1, 1000);
//   SW_RETURN_IF_ERROR(options.status());
#ifndef SHARDWRIGHT_CORE_MODELS_OPTION_READER_H_
#define SHARDWRIGHT_CORE_MODELS_OPTION_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/module/module.h"

namespace shardwright {

// Thread-compatible. Problems are collected; a getter that met one returns the lower bound (false, "").
class OptionReader {
 public:
  // `defaults` has every known option; names of `given` that it lacks are problems.
  OptionReader(absl::string_view model, const ModelOptions& given, ModelOptions defaults);

  // Bounds are inclusive.
  int64_t Int(absl::string_view name, int64_t low, int64_t high);
  double Double(absl::string_view name, double low, double high);
  bool Bool(absl::string_view name);
  // Text as it is, for parsers that judge it themselves.
  const std::string& Text(absl::string_view name) const;

  // A problem that the caller found.
  void AddProblem(absl::string_view problem) { problems_.emplace_back(problem); }
  // kInvalidArgument naming the model and every problem.
  absl::Status status() const;

 private:
  void AddBadValue(absl::string_view name, absl::string_view expected);

  std::string model_;
  ModelOptions values_;
  std::vector<std::string> problems_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MODELS_OPTION_READER_H_
