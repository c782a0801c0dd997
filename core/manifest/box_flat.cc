#include "shardwright/core/base/check.h"
#include "shardwright/core/manifest/box.h"

namespace shardwright {
namespace {

// Cuts flat ranges of one shape; rows of dimension d have `stride_[d]` elements.
class FlatCutter {
 public:
  explicit FlatCutter(const Shape& shape) : shape_(shape), stride_(shape.size(), 1) {
    for (size_t d = shape.size(); d-- > 1;) stride_[d - 1] = stride_[d] * shape[d];
  }

  // Appends the boxes of [begin, end) of the sub-tensor at `prefix`, which fixes the first prefix.size() dimensions.
  void Cut(std::vector<int64_t>& prefix, int64_t begin, int64_t end) {
    if (begin == end) return;
    const size_t d = prefix.size();
    if (d == shape_.size()) {
      Append(prefix, 0, 1);
      return;
    }
    const int64_t stride = stride_[d];
    const int64_t first = begin / stride;
    const int64_t last = end / stride;
    if (first == last) {
      CutRow(prefix, first, begin - first * stride, end - first * stride);
      return;
    }
    const bool head = begin % stride != 0;
    if (head) CutRow(prefix, first, begin - first * stride, stride);
    if (first + head < last) Append(prefix, first + head, last);
    CutRow(prefix, last, 0, end - last * stride);
  }

  std::vector<Box> TakeBoxes() { return std::move(boxes_); }

 private:
  void CutRow(std::vector<int64_t>& prefix, int64_t row, int64_t begin, int64_t end) {
    prefix.push_back(row);
    Cut(prefix, begin, end);
    prefix.pop_back();
  }

  // One box: rows [begin, end) of the dimension behind the prefix, whole in all later ones.
  void Append(const std::vector<int64_t>& prefix, int64_t begin, int64_t end) {
    Box box = Box::Whole(shape_);
    for (size_t d = 0; d < prefix.size(); ++d) {
      box.offset[d] = prefix[d];
      box.size[d] = 1;
    }
    if (prefix.size() < shape_.size()) {
      box.offset[prefix.size()] = begin;
      box.size[prefix.size()] = end - begin;
    }
    boxes_.push_back(std::move(box));
  }

  const Shape& shape_;
  std::vector<int64_t> stride_;
  std::vector<Box> boxes_;
};

}  // namespace

std::vector<Box> BoxesOfFlatRange(const Shape& shape, int64_t begin, int64_t end) {
  SW_CHECK(0 <= begin && begin <= end && end <= Box::Whole(shape).elements());
  if (begin == end) return {};
  FlatCutter cutter(shape);
  std::vector<int64_t> prefix;
  cutter.Cut(prefix, begin, end);
  return cutter.TakeBoxes();
}

}  // namespace shardwright
