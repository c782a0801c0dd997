// Boxes: half-open n-dimensional slices of tensors, and the geometry that placement, planning and IO are built on.
//
// A tensor of shape [6, 4] cut by rows for two ranks:   Box{{0, 0}, {3, 4}}   Box{{3, 0}, {3, 4}}
//
// A scalar has rank 0: its only non-empty box has no dimensions and one element. All layouts are row-major, dense.
#ifndef SHARDWRIGHT_CORE_MANIFEST_BOX_H_
#define SHARDWRIGHT_CORE_MANIFEST_BOX_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace shardwright {

using Shape = std::vector<int64_t>;

// Value type. Invariant of a valid box: equal lengths, no negative number, offset + size does not overflow.
struct Box {
  std::vector<int64_t> offset;
  std::vector<int64_t> size;

  static Box Whole(const Shape& shape) { return Box{std::vector<int64_t>(shape.size(), 0), shape}; }
  // Rows [begin, end) of dimension 0; `shape` must have a dimension.
  static Box Rows(const Shape& shape, int64_t begin, int64_t end);

  int rank() const { return static_cast<int>(size.size()); }
  int64_t elements() const;  // product of sizes; 1 for a scalar
  bool empty() const { return elements() == 0; }
  bool IsWhole(const Shape& shape) const;
  // "[0:3, 0:4]"; a scalar is "[]".
  std::string ToString() const;

  friend bool operator==(const Box&, const Box&) = default;
  friend auto operator<=>(const Box&, const Box&) = default;
};

// "[6, 4]"
std::string ShapeToString(const Shape& shape);
// Elements of a shape; nullopt if a dimension is negative or the product of the dimensions above zero overflows int64:
// a zero does not excuse the others, so strides of a checked shape never overflow either.
std::optional<int64_t> CheckedElements(const Shape& shape);

// kInvalidArgument unless `box` is valid and inside `shape`.
absl::Status ValidateBox(const Box& box, const Shape& shape);
// The common part; nullopt where the boxes (of equal rank) do not overlap. An empty box overlaps nothing.
std::optional<Box> Intersect(const Box& a, const Box& b);
// True if every element of `inner` is one of `outer`: an empty box of the same rank is contained in any box.
bool Contains(const Box& outer, const Box& inner);
// `a` without `b`: at most 2 * rank disjoint boxes.
std::vector<Box> Subtract(const Box& a, const Box& b);
// kInvalidArgument unless the boxes cover `whole` exactly, without overlap (empty boxes are allowed and ignored);
// the message names an overlapping pair or an uncovered box. Near-linear in the number of boxes for slabs, grids and
// nested cuts; thousands of boxes that no plane cuts apart are refused as too irregular rather than checked for hours.
absl::Status CheckTiling(const Box& whole, const std::vector<Box>& boxes);

// Visits the contiguous runs of `part` inside the dense row-major block `container` (part within container), in order:
// fn(offset of the run in the container's elements, elements of the run, offset of the run in part's elements).
// Adjacent dimensions that `part` covers wholly are merged, so rows of a matrix are one run. Allocates nothing per run.
void ForEachRun(const Box& container, const Box& part,
                const std::function<void(int64_t container_offset, int64_t elements, int64_t part_offset)>& fn);
// True if `part` is one contiguous run of `container` (or empty).
bool IsContiguous(const Box& container, const Box& part);
// Offset in elements of the first element of `part` within `container`; both non-empty.
int64_t FirstElement(const Box& container, const Box& part);

// The elements [begin, end) of the flattened (row-major) tensor as boxes, in order, each contiguous in the tensor: at
// most 2 * rank - 1 of them, none if begin == end. `shape` is a checked one, 0 <= begin <= end <= its elements.
std::vector<Box> BoxesOfFlatRange(const Shape& shape, int64_t begin, int64_t end);

// Copies `part` from the dense block of `source_box` into the dense block of `target_box`; both contain `part`.
void CopyBox(const char* source, const Box& source_box, char* target, const Box& target_box, const Box& part,
             int64_t item_size);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_MANIFEST_BOX_H_
