// Cuts boxes into pieces: for windows of bounded size, and for sharing one tensor between ranks.
#ifndef SHARDWRIGHT_CORE_PLAN_BOX_SPLIT_H_
#define SHARDWRIGHT_CORE_PLAN_BOX_SPLIT_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "shardwright/core/manifest/box.h"

namespace shardwright {

// Elements of the dense block `container` from the first to the last one of `part`; 0 if `part` is empty.
int64_t SpanElements(const Box& container, const Box& part);

struct SplitLimits {
  // Longest span of a piece; at least 1.
  int64_t span_elements = std::numeric_limits<int64_t>::max();
  // Pieces do not reach over a gap of this many elements that are not theirs.
  int64_t gap_elements = std::numeric_limits<int64_t>::max();
  // Pieces that end early to keep the span end at a multiple of this many elements of the container, where they can.
  int64_t align_elements = 1;
};

// Visits pieces of `part` that together are `part`, each within the limits, in order of their offset in `container`.
// Nothing for an empty `part`.
void ForEachPiece(const Box& container, const Box& part, const SplitLimits& limits,
                  absl::FunctionRef<void(const Box&)> fn);

// Cuts `run`, which is one contiguous run of its tensor, after about `elements` elements: boxes before the cut are
// added to `head`, the others to `tail`. All of them are contiguous runs, in order. The cut moves to the nearest row
// (of any dimension) whose elements number at most `granularity_elements`, so that few boxes come out.
void CutRun(const Box& run, int64_t elements, int64_t granularity_elements, std::vector<Box>* head,
            std::vector<Box>* tail);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_BOX_SPLIT_H_
