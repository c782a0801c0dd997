// The contiguous runs of boxes inside dense blocks, and copies between blocks.
#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "shardwright/core/manifest/box.h"

namespace shardwright {
namespace {

// Tensors of more dimensions work too, with one allocation per call.
constexpr size_t kUsualRank = 8;

// One level of a nest of loops: `count` steps, by which the position in either block moves.
struct Axis {
  int64_t count;
  int64_t source_stride;
  int64_t target_stride;
};

// `part` seen in two blocks that contain it: a nest of loops (outermost first) over runs contiguous in both blocks.
struct LoopNest {
  absl::InlinedVector<Axis, kUsualRank> axes;
  int64_t run = 1;  // elements
  int64_t source_begin = 0;
  int64_t target_begin = 0;
};

// `part` is not empty and lies within both blocks.
LoopNest MakeLoopNest(const Box& source, const Box& target, const Box& part) {
  LoopNest nest;
  int64_t source_stride = 1;
  int64_t target_stride = 1;
  for (int d = part.rank() - 1; d >= 0; --d) {
    nest.source_begin += (part.offset[d] - source.offset[d]) * source_stride;
    nest.target_begin += (part.offset[d] - target.offset[d]) * target_stride;
    const int64_t count = part.size[d];
    if (nest.axes.empty() && source_stride == nest.run && target_stride == nest.run) {
      nest.run *= count;
    } else if (count > 1) {
      Axis* inner = nest.axes.empty() ? nullptr : &nest.axes.back();
      if (inner != nullptr && source_stride == inner->count * inner->source_stride &&
          target_stride == inner->count * inner->target_stride) {
        inner->count *= count;
      } else {
        nest.axes.push_back({count, source_stride, target_stride});
      }
    }
    source_stride *= source.size[d];
    target_stride *= target.size[d];
  }
  std::reverse(nest.axes.begin(), nest.axes.end());
  return nest;
}

// Calls fn(source position, target position) for each step of the outer axes: all but the last `inner_axes`.
template <typename Fn>
void ForEachStep(const LoopNest& nest, size_t inner_axes, Fn fn) {
  const size_t outer = nest.axes.size() - inner_axes;
  absl::InlinedVector<int64_t, kUsualRank> step(outer, 0);
  int64_t source = nest.source_begin;
  int64_t target = nest.target_begin;
  while (true) {
    fn(source, target);
    size_t d = outer;
    while (d > 0) {
      const Axis& axis = nest.axes[--d];
      source += axis.source_stride;
      target += axis.target_stride;
      if (++step[d] < axis.count) break;
      source -= axis.count * axis.source_stride;
      target -= axis.count * axis.target_stride;
      step[d] = 0;
      if (d == 0) return;
    }
    if (outer == 0) return;
  }
}

// The innermost loop, in bytes. A fixed size lets the compiler make single moves of it.
template <size_t kBytes>
void CopyFixed(const char* source, char* target, const Axis& axis, int64_t item_size) {
  for (int64_t i = 0; i < axis.count; ++i) {
    std::memcpy(target, source, kBytes);
    source += axis.source_stride * item_size;
    target += axis.target_stride * item_size;
  }
}

void CopyStrided(const char* source, char* target, const Axis& axis, int64_t item_size, int64_t run_bytes) {
  switch (run_bytes) {
    case 1:
      return CopyFixed<1>(source, target, axis, item_size);
    case 2:
      return CopyFixed<2>(source, target, axis, item_size);
    case 4:
      return CopyFixed<4>(source, target, axis, item_size);
    case 8:
      return CopyFixed<8>(source, target, axis, item_size);
  }
  for (int64_t i = 0; i < axis.count; ++i) {
    std::memcpy(target, source, run_bytes);
    source += axis.source_stride * item_size;
    target += axis.target_stride * item_size;
  }
}

}  // namespace

void ForEachRun(const Box& container, const Box& part,
                const std::function<void(int64_t container_offset, int64_t elements, int64_t part_offset)>& fn) {
  if (part.empty()) return;
  const LoopNest nest = MakeLoopNest(container, part, part);
  ForEachStep(nest, 0, [&](int64_t offset, int64_t part_offset) { fn(offset, nest.run, part_offset); });
}

bool IsContiguous(const Box& container, const Box& part) {
  return part.empty() || MakeLoopNest(container, part, part).axes.empty();
}

int64_t FirstElement(const Box& container, const Box& part) {
  return MakeLoopNest(container, part, part).source_begin;
}

void CopyBox(const char* source, const Box& source_box, char* target, const Box& target_box, const Box& part,
             int64_t item_size) {
  if (part.empty()) return;
  const LoopNest nest = MakeLoopNest(source_box, target_box, part);
  const int64_t run_bytes = nest.run * item_size;
  if (nest.axes.empty()) {
    std::memcpy(target + nest.target_begin * item_size, source + nest.source_begin * item_size, run_bytes);
    return;
  }
  ForEachStep(nest, 1, [&](int64_t source_position, int64_t target_position) {
    CopyStrided(source + source_position * item_size, target + target_position * item_size, nest.axes.back(), item_size,
                run_bytes);
  });
}

}  // namespace shardwright
