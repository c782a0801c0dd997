#include "shardwright/core/plan/save_assign.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shardwright/core/plan/box_split.h"

namespace shardwright {
namespace {

// Cuts fall on rows of at most this many bytes, and leave no piece that is smaller.
constexpr int64_t kCutGranularityBytes = 64 * 1024;

AssignedBox Assigned(const HeldBox& held, int32_t rank, Box box) {
  const uint64_t bytes = static_cast<uint64_t>(box.elements() * held.item_bytes);
  return AssignedBox{rank, held.tensor, std::move(box), bytes};
}

// Boxes with a single holder are its own; adds them to the loads.
std::vector<AssignedBox> AssignUnshared(const std::vector<HeldBox>& boxes, const HolderSets& sets,
                                        std::vector<uint64_t>* loads) {
  std::vector<AssignedBox> assigned;
  assigned.reserve(boxes.size());
  for (const HeldBox& held : boxes) {
    if (sets[held.holders].size() > 1) continue;
    const int32_t rank = sets[held.holders].front();
    (*loads)[rank] += held.bytes();
    assigned.push_back(Assigned(held, rank, held.box));
  }
  return assigned;
}

// Hands out one set's boxes, front to back, while a rank's share lasts.
class StretchDealer {
 public:
  StretchDealer(const std::vector<int32_t>& ranks, std::vector<uint64_t> shares, std::vector<AssignedBox>* out)
      : ranks_(ranks), shares_(std::move(shares)), end_(shares_.front()), out_(out) {}

  void Deal(const HeldBox& held) { DealRuns(held, {held.box}); }

 private:
  void DealRuns(const HeldBox& held, std::vector<Box> runs) {
    for (size_t i = 0; i < runs.size(); ++i) {
      const uint64_t bytes = static_cast<uint64_t>(runs[i].elements() * held.item_bytes);
      while (next_ + 1 < ranks_.size() && position_ >= end_) NextRank();
      std::vector<Box> head, tail;
      CutRun(runs[i], CutElements(held, bytes), kCutGranularityBytes / held.item_bytes, &head, &tail);
      for (Box& box : head) {
        position_ += static_cast<uint64_t>(box.elements() * held.item_bytes);
        out_->push_back(Assigned(held, ranks_[next_], std::move(box)));
      }
      if (tail.empty()) continue;
      NextRank();
      DealRuns(held, std::move(tail));
    }
  }

  // How many elements of a run of `bytes` the rank whose turn it is should take.
  int64_t CutElements(const HeldBox& held, uint64_t bytes) const {
    const uint64_t granularity = kCutGranularityBytes;
    const uint64_t left = end_ > position_ ? end_ - position_ : 0;
    const bool last = next_ + 1 == ranks_.size();
    const uint64_t take = last || left + granularity >= bytes ? bytes : left < granularity ? 0 : left;
    return static_cast<int64_t>(take) / held.item_bytes;
  }

  void NextRank() {
    ++next_;
    end_ += shares_[next_];
  }

  const std::vector<int32_t>& ranks_;
  const std::vector<uint64_t> shares_;
  size_t next_ = 0;
  uint64_t position_ = 0;  // bytes handed out
  uint64_t end_;           // where the stretch of the rank whose turn it is should end
  std::vector<AssignedBox>* out_;
};

}  // namespace

HolderSets::HolderSets(int32_t world_size) {
  for (int32_t rank = 0; rank < world_size; ++rank) sets_.push_back({rank});
}

uint32_t HolderSets::Intern(const std::vector<int32_t>& ranks) {
  if (ranks.size() == 1) return static_cast<uint32_t>(ranks.front());
  const auto [it, fresh] = shared_.emplace(ranks, static_cast<uint32_t>(sets_.size()));
  if (fresh) sets_.push_back(ranks);
  return it->second;
}

std::vector<AssignedBox> AssignWhole(const std::vector<HeldBox>& boxes, const HolderSets& sets, int32_t world_size) {
  std::vector<uint64_t> loads(world_size, 0);
  std::vector<AssignedBox> assigned = AssignUnshared(boxes, sets, &loads);
  std::vector<size_t> shared;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (sets[boxes[i].holders].size() > 1) shared.push_back(i);
  }
  std::stable_sort(shared.begin(), shared.end(),
                   [&](size_t a, size_t b) { return boxes[a].bytes() > boxes[b].bytes(); });
  for (size_t i : shared) {
    const std::vector<int32_t>& ranks = sets[boxes[i].holders];
    const int32_t rank =
        *std::min_element(ranks.begin(), ranks.end(), [&](int32_t a, int32_t b) { return loads[a] < loads[b]; });
    loads[rank] += boxes[i].bytes();
    assigned.push_back(Assigned(boxes[i], rank, boxes[i].box));
  }
  return assigned;
}

std::vector<uint64_t> EvenShares(const std::vector<uint64_t>& loads, uint64_t bytes) {
  std::vector<size_t> order(loads.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return loads[a] < loads[b]; });
  std::vector<uint64_t> shares(loads.size(), 0);
  // Fills the `count` least loaded up to the load of the next one, until the bytes run out.
  for (size_t count = 1; count <= order.size() && bytes > 0; ++count) {
    const uint64_t even = (bytes + count - 1) / count;
    const bool all = count == order.size();
    const uint64_t step = all ? even : std::min(loads[order[count]] - loads[order[count - 1]], even);
    for (size_t i = 0; i < count && bytes > 0; ++i) {
      const uint64_t given = std::min(step, bytes);
      shares[order[i]] += given;
      bytes -= given;
    }
  }
  return shares;
}

std::vector<AssignedBox> AssignStretches(const std::vector<HeldBox>& boxes, const HolderSets& sets,
                                         int32_t world_size) {
  std::vector<uint64_t> loads(world_size, 0);
  std::vector<AssignedBox> assigned = AssignUnshared(boxes, sets, &loads);
  std::vector<std::vector<size_t>> by_set(sets.size());
  std::vector<uint64_t> set_bytes(sets.size(), 0);
  for (size_t i = 0; i < boxes.size(); ++i) {
    by_set[boxes[i].holders].push_back(i);
    set_bytes[boxes[i].holders] += boxes[i].bytes();
  }
  for (uint32_t set = static_cast<uint32_t>(world_size); set < sets.size(); ++set) {
    std::vector<uint64_t> held;
    for (int32_t rank : sets[set]) held.push_back(loads[rank]);
    const size_t first = assigned.size();
    StretchDealer dealer(sets[set], EvenShares(held, set_bytes[set]), &assigned);
    for (size_t i : by_set[set]) dealer.Deal(boxes[i]);
    for (size_t i = first; i < assigned.size(); ++i) loads[assigned[i].rank] += assigned[i].bytes;
  }
  return assigned;
}

}  // namespace shardwright
