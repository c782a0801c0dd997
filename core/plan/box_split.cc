#include "shardwright/core/plan/box_split.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"

namespace shardwright {
namespace {

using Strides = absl::InlinedVector<int64_t, 6>;

Strides StridesOf(const Box& container) {
  Strides strides(container.rank(), 1);
  for (int d = container.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * container.size[d + 1];
  return strides;
}

int64_t Span(const Strides& strides, const Box& part) {
  int64_t span = 1;
  for (int d = 0; d < part.rank(); ++d) span += (part.size[d] - 1) * strides[d];
  return span;
}

int FirstLongDimension(const Box& box) {
  for (int d = 0; d < box.rank(); ++d) {
    if (box.size[d] > 1) return d;
  }
  return -1;
}

Box RowsOf(const Box& box, int dimension, int64_t begin, int64_t count) {
  Box rows = box;
  rows.offset[dimension] += begin;
  rows.size[dimension] = count;
  return rows;
}

class Splitter {
 public:
  Splitter(const Box& container, const SplitLimits& limits, absl::FunctionRef<void(const Box&)> fn)
      : container_(container), strides_(StridesOf(container)), limits_(limits), fn_(fn) {}

  void Split(const Box& part) {
    const bool gap = HasLongGap(part);
    if (!gap && Span(strides_, part) <= limits_.span_elements) return fn_(part);
    const int d = FirstLongDimension(part);
    for (int64_t row = 0; row < part.size[d];) {
      const int64_t count = gap ? 1 : RowsThatFit(part, d, row);
      Split(RowsOf(part, d, row, count));
      row += count;
    }
  }

 private:
  // True if somewhere between two rows lie gap_elements or more of others.
  bool HasLongGap(const Box& part) const {
    int64_t inner = 1;
    for (int d = part.rank() - 1; d >= 0; --d) {
      if (part.size[d] > 1 && strides_[d] - inner >= limits_.gap_elements) return true;
      inner += (part.size[d] - 1) * strides_[d];
    }
    return false;
  }

  int64_t RowsThatFit(const Box& part, int d, int64_t row) const {
    const int64_t inner = Span(strides_, RowsOf(part, d, 0, 1));
    if (inner > limits_.span_elements) return 1;
    const int64_t fit = 1 + (limits_.span_elements - inner) / strides_[d];
    const int64_t rest = part.size[d] - row;
    return fit >= rest ? rest : AlignedRows(FirstElement(container_, RowsOf(part, d, row, 1)), strides_[d], fit);
  }

  // The most rows, up to `fit`, after which the next row starts aligned; `fit` if there is no such number nearby.
  int64_t AlignedRows(int64_t begin, int64_t stride, int64_t fit) const {
    constexpr int64_t kTries = 1024;
    for (int64_t rows = fit; limits_.align_elements > 1 && rows > std::max<int64_t>(fit / 2, fit - kTries); --rows) {
      if ((begin + rows * stride) % limits_.align_elements == 0) return rows;
    }
    return fit;
  }

  const Box& container_;
  const Strides strides_;
  const SplitLimits& limits_;
  absl::FunctionRef<void(const Box&)> fn_;
};

}  // namespace

int64_t SpanElements(const Box& container, const Box& part) {
  return part.empty() ? 0 : Span(StridesOf(container), part);
}

void ForEachPiece(const Box& container, const Box& part, const SplitLimits& limits,
                  absl::FunctionRef<void(const Box&)> fn) {
  if (!part.empty()) Splitter(container, limits, fn).Split(part);
}

void CutRun(const Box& run, int64_t elements, int64_t granularity_elements, std::vector<Box>* head,
            std::vector<Box>* tail) {
  if (elements >= run.elements()) return head->push_back(run);
  if (elements <= 0) return tail->push_back(run);
  const int d = FirstLongDimension(run);  // there is one: 0 < elements < run.elements()
  const int64_t row = run.elements() / run.size[d];
  int64_t whole_rows = elements / row;
  int64_t rest = elements % row;
  if (row <= granularity_elements) {
    whole_rows += rest * 2 >= row && rest > 0 ? 1 : 0;
    rest = 0;
  }
  if (whole_rows > 0) head->push_back(RowsOf(run, d, 0, whole_rows));
  if (rest > 0) CutRun(RowsOf(run, d, whole_rows, 1), rest, granularity_elements, head, tail);
  const int64_t next = whole_rows + (rest > 0 ? 1 : 0);
  if (next < run.size[d]) tail->push_back(RowsOf(run, d, next, run.size[d] - next));
}

}  // namespace shardwright
