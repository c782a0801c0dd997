// Decides which of the ranks that hold equal boxes writes them, so that every byte is written once and the ranks write
// about equally much. A part of PlanSave.
#ifndef SHARDWRIGHT_CORE_PLAN_SAVE_ASSIGN_H_
#define SHARDWRIGHT_CORE_PLAN_SAVE_ASSIGN_H_

#include <cstdint>
#include <map>
#include <vector>

#include "shardwright/core/manifest/box.h"

namespace shardwright {

// Sets of ranks under small numbers: a model has few distinct ones. Number r is the set of rank r alone.
class HolderSets {
 public:
  explicit HolderSets(int32_t world_size);
  // `ranks` ascending, not empty.
  uint32_t Intern(const std::vector<int32_t>& ranks);
  const std::vector<int32_t>& operator[](uint32_t set) const { return sets_[set]; }
  size_t size() const { return sets_.size(); }

 private:
  std::vector<std::vector<int32_t>> sets_;
  std::map<std::vector<int32_t>, uint32_t> shared_;  // sets of several ranks
};

// A box that the ranks of a set hold alike. The boxes of a tensor tile it.
struct HeldBox {
  uint32_t tensor = 0;
  Box box;
  int64_t item_bytes = 1;
  uint32_t holders = 0;
  uint64_t bytes() const { return static_cast<uint64_t>(box.elements() * item_bytes); }
};

struct AssignedBox {
  int32_t rank = 0;
  uint32_t tensor = 0;
  Box box;
  uint64_t bytes = 0;
};

// Whole boxes, the largest first, each to the holder that has least so far (the lowest of equals).
std::vector<AssignedBox> AssignWhole(const std::vector<HeldBox>& boxes, const HolderSets& sets, int32_t world_size);

// Cuts shared boxes, which must be contiguous runs of their tensors: the bytes of each set of holders, in the order
// given, are handed out in one stretch per holder, so that all end up with the same number of bytes as nearly as rows
// allow.
std::vector<AssignedBox> AssignStretches(const std::vector<HeldBox>& boxes, const HolderSets& sets, int32_t world_size);

// What each holder of `loads` bytes is given of `bytes` more, so that the least loaded are filled up evenly.
std::vector<uint64_t> EvenShares(const std::vector<uint64_t>& loads, uint64_t bytes);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_PLAN_SAVE_ASSIGN_H_
