// Elementwise reduction on the host, in a fixed order, so that equal inputs give equal bits. Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_REDUCE_H_
#define SHARDWRIGHT_CORE_COMM_REDUCE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "shardwright/core/comm/communicator.h"
#include "shardwright/core/manifest/dtype.h"

namespace shardwright {

// Integers and floats of at least 16 bits (and 8-bit integers); bool by kMin (and) and kMax (or) alone.
bool CanReduce(DType dtype, ReduceOp op);

// out[i] = inputs[0][i] op inputs[1][i] op ..., from left to right. Half-precision floats are accumulated in float and
// rounded once; integers wrap around. `out` overlaps no input. Requires CanReduce and at least one input.
void Reduce(DType dtype, ReduceOp op, absl::Span<const void* const> inputs, int64_t count, void* out);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_REDUCE_H_
