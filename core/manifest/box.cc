#include "shardwright/core/manifest/box.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/checked_math.h"

namespace shardwright {

Box Box::Rows(const Shape& shape, int64_t begin, int64_t end) {
  Box box = Whole(shape);
  box.offset[0] = begin;
  box.size[0] = end - begin;
  return box;
}

int64_t Box::elements() const {
  // The zero is looked for first: the other dimensions of an empty box may not have a product.
  if (std::find(size.begin(), size.end(), 0) != size.end()) return 0;
  int64_t product = 1;
  for (int64_t dimension : size) product *= dimension;
  return product;
}

bool Box::IsWhole(const Shape& shape) const {
  return size == shape && std::all_of(offset.begin(), offset.end(), [](int64_t o) { return o == 0; });
}

std::string Box::ToString() const {
  std::string text = "[";
  for (size_t d = 0; d < size.size(); ++d) {
    absl::StrAppend(&text, d == 0 ? "" : ", ", offset[d], ":", offset[d] + size[d]);
  }
  return text + "]";
}

std::string ShapeToString(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::optional<int64_t> CheckedElements(const Shape& shape) {
  int64_t product = 1;
  bool empty = false;
  for (int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    empty |= dimension == 0;
    std::optional<int64_t> next = CheckedMultiply(product, std::max<int64_t>(dimension, 1));
    if (!next.has_value()) return std::nullopt;
    product = *next;
  }
  return empty ? 0 : product;
}

absl::Status ValidateBox(const Box& box, const Shape& shape) {
  if (box.offset.size() != shape.size() || box.size.size() != shape.size()) {
    return absl::InvalidArgumentError(absl::StrCat("box with ", box.offset.size(), " offsets and ", box.size.size(),
                                                   " sizes: want ", shape.size(), " of each for the shape ",
                                                   ShapeToString(shape)));
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    // Written without a sum, which could overflow.
    if (box.offset[d] < 0 || box.size[d] < 0 || box.size[d] > shape[d] || box.offset[d] > shape[d] - box.size[d]) {
      return absl::InvalidArgumentError(absl::StrCat("box with offset ", box.offset[d], " and size ", box.size[d],
                                                     " in dimension ", d, ": not inside the shape ",
                                                     ShapeToString(shape)));
    }
  }
  return absl::OkStatus();
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  Box common;
  common.offset.resize(a.size.size());
  common.size.resize(a.size.size());
  for (size_t d = 0; d < a.size.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    if (begin >= end) return std::nullopt;
    common.offset[d] = begin;
    common.size[d] = end - begin;
  }
  return common;
}

bool Contains(const Box& outer, const Box& inner) {
  if (outer.rank() != inner.rank()) return false;
  if (inner.empty()) return true;
  for (size_t d = 0; d < inner.size.size(); ++d) {
    if (inner.offset[d] < outer.offset[d]) return false;
    if (inner.offset[d] + inner.size[d] > outer.offset[d] + outer.size[d]) return false;
  }
  return true;
}

std::vector<Box> Subtract(const Box& a, const Box& b) {
  if (a.empty()) return {};
  const std::optional<Box> common = Intersect(a, b);
  if (!common.has_value()) return {a};
  // Slices what lies before and behind the common part off, dimension by dimension; `rest` shrinks to the common part.
  std::vector<Box> pieces;
  Box rest = a;
  for (size_t d = 0; d < a.size.size(); ++d) {
    const int64_t before = common->offset[d] - rest.offset[d];
    const int64_t behind = rest.size[d] - before - common->size[d];
    if (before > 0) {
      pieces.push_back(rest);
      pieces.back().size[d] = before;
    }
    if (behind > 0) {
      pieces.push_back(rest);
      pieces.back().offset[d] = common->offset[d] + common->size[d];
      pieces.back().size[d] = behind;
    }
    rest.offset[d] = common->offset[d];
    rest.size[d] = common->size[d];
  }
  return pieces;
}

}  // namespace shardwright
