// CheckTiling: cuts the region along planes that no box crosses, until each part holds one box that fills it.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shardwright/core/manifest/box.h"

namespace shardwright {
namespace {

using Ids = absl::Span<uint32_t>;

// Recursion over regions. A region that one box fills is good; an empty one is a hole; one that two boxes fill is an
// overlap. Else it is cut: along every plane of some dimension that no box crosses, or, where each plane is crossed, in
// two by the plane that the fewest boxes cross; those are cut with it.
class TilingChecker {
 public:
  TilingChecker(const Box& whole, const std::vector<Box>& boxes) : region_(whole) {
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (!boxes[i].empty()) Add(boxes[i], static_cast<uint32_t>(i));
    }
    work_left_ = 64 * static_cast<int64_t>(pieces_.size()) + (int64_t{1} << 20);
  }

  absl::Status Check() {
    if (region_.empty()) return absl::OkStatus();
    std::vector<uint32_t> ids(pieces_.size());
    std::iota(ids.begin(), ids.end(), 0);
    return CheckRegion(absl::MakeSpan(ids), 0);
  }

 private:
  // A box, or the part of one that lies in the region at hand.
  struct Piece {
    uint32_t owner;  // index of the box as given
    Box box;
  };

  void Add(Box box, uint32_t owner) { pieces_.push_back({owner, std::move(box)}); }
  int64_t Begin(uint32_t id, int d) const { return pieces_[id].box.offset[d]; }
  int64_t End(uint32_t id, int d) const { return Begin(id, d) + pieces_[id].box.size[d]; }

  // `first_dimension` was not cut by the caller: the likely place for the next cut.
  absl::Status CheckRegion(Ids ids, int first_dimension) {
    if (ids.empty()) return absl::InvalidArgumentError(absl::StrCat("no box covers ", region_.ToString()));
    work_left_ -= static_cast<int64_t>(ids.size());
    if (work_left_ < 0) return absl::InvalidArgumentError("the boxes are cut too irregularly to be checked");
    if (ids.size() == 1 && pieces_[ids[0]].box == region_) return absl::OkStatus();
    for (int i = 0; i < region_.rank(); ++i) {
      const int d = (first_dimension + i) % region_.rank();
      if (CutsCleanly(ids, d)) return CheckSlabs(ids, d);
    }
    return CheckCrossed(ids);
  }

  // Sorts by begin; true if some plane across dimension d separates boxes, or boxes from a hole.
  bool CutsCleanly(Ids ids, int d) {
    std::sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) { return Begin(a, d) < Begin(b, d); });
    if (Begin(ids[0], d) > region_.offset[d]) return true;
    int64_t reach = End(ids[0], d);
    for (uint32_t id : ids) {
      if (Begin(id, d) >= reach) return true;
      reach = std::max(reach, End(id, d));
    }
    return reach < region_.offset[d] + region_.size[d];
  }

  // Checks each group of boxes that overlap in dimension d; ids are sorted by it.
  absl::Status CheckSlabs(Ids ids, int d) {
    const int64_t region_begin = region_.offset[d];
    const int64_t region_end = region_begin + region_.size[d];
    int64_t covered = region_begin;
    absl::Status status;
    for (size_t begin = 0; status.ok() && begin < ids.size();) {
      const int64_t slab_begin = Begin(ids[begin], d);
      int64_t slab_end = End(ids[begin], d);
      size_t end = begin + 1;
      for (; end < ids.size() && Begin(ids[end], d) < slab_end; ++end) slab_end = std::max(slab_end, End(ids[end], d));
      if (slab_begin > covered) status = CheckPart(d, covered, slab_begin, {});
      if (status.ok()) status = CheckPart(d, slab_begin, slab_end, ids.subspan(begin, end - begin));
      covered = slab_end;
      begin = end;
    }
    if (status.ok() && covered < region_end) status = CheckPart(d, covered, region_end, {});
    return status;
  }

  // Checks [begin, end) of dimension d of the region.
  absl::Status CheckPart(int d, int64_t begin, int64_t end, Ids ids) {
    const std::pair<int64_t, int64_t> saved = {region_.offset[d], region_.size[d]};
    region_.offset[d] = begin;
    region_.size[d] = end - begin;
    absl::Status status = CheckRegion(ids, d + 1 < region_.rank() ? d + 1 : 0);
    region_.offset[d] = saved.first;
    region_.size[d] = saved.second;
    return status;
  }

  struct Plane {
    int dimension = -1;
    int64_t at = 0;
    size_t crossed = 0;  // boxes
  };

  absl::Status CheckCrossed(Ids ids) {
    const Plane plane = BestPlane(ids);
    if (plane.dimension < 0) return OverlapError(ids);
    const int d = plane.dimension;
    const int64_t begin = region_.offset[d];
    const int64_t end = begin + region_.size[d];
    const size_t old_pieces = pieces_.size();
    std::vector<uint32_t> low, high;
    for (uint32_t id : ids) {
      if (End(id, d) <= plane.at) {
        low.push_back(id);
      } else if (Begin(id, d) >= plane.at) {
        high.push_back(id);
      } else {
        low.push_back(AddPart(id, d, Begin(id, d), plane.at));
        high.push_back(AddPart(id, d, plane.at, End(id, d)));
      }
    }
    absl::Status status = CheckPart(d, begin, plane.at, absl::MakeSpan(low));
    if (status.ok()) status = CheckPart(d, plane.at, end, absl::MakeSpan(high));
    pieces_.resize(old_pieces);
    return status;
  }

  uint32_t AddPart(uint32_t id, int d, int64_t begin, int64_t end) {
    Piece part = pieces_[id];
    part.box.offset[d] = begin;
    part.box.size[d] = end - begin;
    pieces_.push_back(std::move(part));
    return static_cast<uint32_t>(pieces_.size() - 1);
  }

  // Of the middle box edges of each dimension, the one that the fewest boxes cross. None if every box fills the region.
  Plane BestPlane(Ids ids) const {
    Plane best;
    for (int d = 0; d < region_.rank(); ++d) {
      std::vector<int64_t> edges;
      for (uint32_t id : ids) {
        if (Begin(id, d) > region_.offset[d]) edges.push_back(Begin(id, d));
        if (End(id, d) < region_.offset[d] + region_.size[d]) edges.push_back(End(id, d));
      }
      if (edges.empty()) continue;
      std::nth_element(edges.begin(), edges.begin() + edges.size() / 2, edges.end());
      const int64_t at = edges[edges.size() / 2];
      const size_t crossed =
          std::count_if(ids.begin(), ids.end(), [&](uint32_t id) { return Begin(id, d) < at && at < End(id, d); });
      if (best.dimension < 0 || crossed < best.crossed) best = {d, at, crossed};
    }
    return best;
  }

  absl::Status OverlapError(Ids ids) const {
    const auto [first, second] = std::minmax(pieces_[ids[0]].owner, pieces_[ids[1]].owner);
    return absl::InvalidArgumentError(
        absl::StrCat("boxes ", first, " and ", second, " overlap in ", region_.ToString()));
  }

  Box region_;  // at hand
  std::vector<Piece> pieces_;
  int64_t work_left_ = 0;
};

}  // namespace

absl::Status CheckTiling(const Box& whole, const std::vector<Box>& boxes) {
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!Contains(whole, boxes[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("box ", i, ", ", boxes[i].ToString(), ", is not inside ", whole.ToString()));
    }
  }
  if (boxes.size() == 1 && boxes[0] == whole) return absl::OkStatus();
  return TilingChecker(whole, boxes).Check();
}

}  // namespace shardwright
