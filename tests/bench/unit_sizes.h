// FENCE (the .cc, not this header): how large a model's units are.
#ifndef SHARDWRIGHT_TESTS_BENCH_UNIT_SIZES_H_
#define SHARDWRIGHT_TESTS_BENCH_UNIT_SIZES_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "shardwright/core/module/module.h"

namespace shardwright::bench {

// Bytes of the whole parameters of the largest unit, the root being one. Builds the model as zero3 does, a unit at a
// time; kInvalidArgument where zero3 could not.
absl::StatusOr<uint64_t> LargestUnitBytes(std::unique_ptr<Module> module);

}  // namespace shardwright::bench

#endif  // SHARDWRIGHT_TESTS_BENCH_UNIT_SIZES_H_
