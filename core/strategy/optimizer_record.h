// What a checkpoint says about the optimizer whose state it holds. State tensors are found by name; this record tells
// whether they mean the same to the optimizer that goes on with them.
#ifndef SHARDWRIGHT_CORE_STRATEGY_OPTIMIZER_RECORD_H_
#define SHARDWRIGHT_CORE_STRATEGY_OPTIMIZER_RECORD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardwright/core/manifest/value.h"
#include "shardwright/core/module/optimizer_spec.h"

namespace shardwright {

// {"kind": "adamw", "groups": [{"parameters": [names], "learning_rate": 0.001, ...}], "schedule": {"kind": "cosine",
// ...}}
Value::Map RecordOptimizer(const OptimizerSpec& spec);

// Hyperparameters, groups and schedule are taken from the new spec, so that a run can change them: each change is a
// note, "learning_rate was 0.001, is 0.0005 (12 parameters)". Parameters that only one side has are left to strictness.
// kInvalidArgument if the kinds differ: the state of one is no state of the other.
absl::StatusOr<std::vector<std::string>> CompareOptimizer(const Value::Map& record, const OptimizerSpec& spec);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_STRATEGY_OPTIMIZER_RECORD_H_
