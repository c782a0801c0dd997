// Box geometry against the plainest possible model: a set of elements, one flag each.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "shardwright/core/manifest/box.h"
#include "tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using Random = std::mt19937_64;

constexpr int kRounds = 4000;

int64_t Uniform(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

Shape RandomShape(Random& random) {
  Shape shape(Uniform(random, 0, 4));
  for (int64_t& dimension : shape) dimension = Uniform(random, 0, 9) == 0 ? 0 : Uniform(random, 1, 5);
  return shape;
}

// Inside `outer`; sometimes empty, often touching its edges.
Box RandomBox(Random& random, const Box& outer) {
  Box box = outer;
  for (int d = 0; d < outer.rank(); ++d) {
    if (Uniform(random, 0, 2) == 0) continue;
    const int64_t a = Uniform(random, 0, outer.size[d]);
    const int64_t b = Uniform(random, 0, outer.size[d]);
    box.offset[d] = outer.offset[d] + std::min(a, b);
    box.size[d] = std::max(a, b) - std::min(a, b);
  }
  return box;
}

// Calls fn(index) for every index of `box`, row-major, by the definition.
template <typename Fn>
void ForEachIndex(const Box& box, Fn fn) {
  const int64_t count = std::accumulate(box.size.begin(), box.size.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> index(box.rank());
    int64_t rest = i;
    for (int d = box.rank() - 1; d >= 0; --d) {
      index[d] = box.offset[d] + rest % box.size[d];
      rest /= box.size[d];
    }
    fn(index);
  }
}

// Position of an index in the dense block of `container`.
int64_t Position(const Box& container, const std::vector<int64_t>& index) {
  int64_t position = 0;
  for (int d = 0; d < container.rank(); ++d) position = position * container.size[d] + index[d] - container.offset[d];
  return position;
}

// How often each element of `whole` is in the boxes.
std::vector<int> Count(const Box& whole, const std::vector<Box>& boxes) {
  std::vector<int> count(whole.elements(), 0);
  for (const Box& box : boxes) {
    ForEachIndex(box, [&](const std::vector<int64_t>& index) { ++count[Position(whole, index)]; });
  }
  return count;
}

class BoxPropertyTest : public ::testing::Test {
 protected:
  BoxPropertyTest() : seed_(std::random_device()()), random_(seed_) {
    std::printf("seed: %llu\n", static_cast<unsigned long long>(seed_));
    RecordProperty("seed", std::to_string(seed_));
  }
  uint64_t seed_;
  Random random_;
};

TEST_F(BoxPropertyTest, IntersectSubtractContains) {
  for (int round = 0; round < kRounds; ++round) {
    const Box whole = Box::Whole(RandomShape(random_));
    const Box a = RandomBox(random_, whole);
    const Box b = RandomBox(random_, whole);
    SCOPED_TRACE(a.ToString() + " and " + b.ToString());
    const std::vector<int> in_a = Count(whole, {a});
    const std::vector<int> in_b = Count(whole, {b});
    const std::optional<Box> common = Intersect(a, b);
    const std::vector<Box> rest = Subtract(a, b);
    const std::vector<int> in_common = common ? Count(whole, {*common}) : std::vector<int>(in_a.size(), 0);
    const std::vector<int> in_rest = Count(whole, rest);
    bool b_inside_a = true;
    for (size_t i = 0; i < in_a.size(); ++i) {
      ASSERT_EQ(in_common[i], in_a[i] & in_b[i]);
      ASSERT_EQ(in_rest[i], in_a[i] & ~in_b[i]);
      b_inside_a &= in_b[i] <= in_a[i];
    }
    ASSERT_EQ(Contains(a, b), b_inside_a);
    ASSERT_LE(rest.size(), 2u * whole.rank() + (whole.rank() == 0));
    for (const Box& piece : rest) ASSERT_FALSE(piece.empty());
    ASSERT_FALSE(common.has_value() && common->empty());
  }
}

// Cuts at random places in random dimensions.
void RandomCuts(Random& random, const Box& box, int depth, std::vector<Box>& out) {
  const int d = box.rank() == 0 ? 0 : static_cast<int>(Uniform(random, 0, box.rank() - 1));
  if (box.rank() == 0 || depth == 0 || Uniform(random, 0, 5) == 0) {
    out.push_back(box);
    return;
  }
  const int64_t at = Uniform(random, 0, box.size[d]);
  Box low = box, high = box;
  low.size[d] = at;
  high.offset[d] += at;
  high.size[d] -= at;
  RandomCuts(random, low, depth - 1, out);
  RandomCuts(random, high, depth - 1, out);
}

bool TilesByCount(const Box& whole, const std::vector<Box>& boxes) {
  const std::vector<int> count = Count(whole, boxes);
  return std::all_of(count.begin(), count.end(), [](int n) { return n == 1; });
}

TEST_F(BoxPropertyTest, CheckTilingAgreesWithCounting) {
  int good = 0, bad = 0;
  for (int round = 0; round < kRounds; ++round) {
    Box whole = Box::Whole(RandomShape(random_));
    for (int64_t& offset : whole.offset) offset = Uniform(random_, 0, 3);
    std::vector<Box> boxes;
    RandomCuts(random_, whole, 5, boxes);
    std::shuffle(boxes.begin(), boxes.end(), random_);
    switch (Uniform(random_, 0, 3)) {  // now and then a defect
      case 0:
        boxes.pop_back();
        break;
      case 1:
        boxes[Uniform(random_, 0, boxes.size() - 1)] = RandomBox(random_, whole);
        break;
    }
    const bool tiles = TilesByCount(whole, boxes);
    const absl::Status status = CheckTiling(whole, boxes);
    ASSERT_EQ(status.ok(), tiles) << whole.ToString() << ": " << status;
    ++(tiles ? good : bad);
  }
  EXPECT_GT(good, kRounds / 10);
  EXPECT_GT(bad, kRounds / 10);
}

// Arbitrary sets of unit cells merged at random: tilings that no sequence of planes makes.
TEST_F(BoxPropertyTest, CheckTilingOfGrownBoxes) {
  for (int round = 0; round < kRounds / 8; ++round) {
    const Box whole = Box::Whole({Uniform(random_, 1, 7), Uniform(random_, 1, 7), Uniform(random_, 1, 3)});
    std::vector<int> used(whole.elements(), 0);
    std::vector<Box> boxes;
    ForEachIndex(whole, [&](const std::vector<int64_t>& index) {
      if (used[Position(whole, index)]) return;
      Box box{index, {1, 1, 1}};
      for (int attempt = 0; attempt < 6; ++attempt) {
        Box grown = box;
        ++grown.size[Uniform(random_, 0, 2)];
        if (!Contains(whole, grown)) continue;
        bool is_free = true;
        ForEachIndex(grown, [&](const std::vector<int64_t>& i) { is_free &= !used[Position(whole, i)]; });
        if (is_free) box = grown;
      }
      ForEachIndex(box, [&](const std::vector<int64_t>& i) { used[Position(whole, i)] = 1; });
      boxes.push_back(box);
    });
    std::shuffle(boxes.begin(), boxes.end(), random_);
    ASSERT_TRUE(CheckTiling(whole, boxes).ok());
    boxes.back().size[Uniform(random_, 0, 2)] -= 1;
    ASSERT_FALSE(CheckTiling(whole, boxes).ok());
  }
}

TEST_F(BoxPropertyTest, RunsVisitEveryElementInOrder) {
  for (int round = 0; round < kRounds; ++round) {
    const Box whole = Box::Whole(RandomShape(random_));
    const Box container = RandomBox(random_, whole);
    const Box part = RandomBox(random_, container);
    SCOPED_TRACE(part.ToString() + " in " + container.ToString());
    std::vector<int64_t> want, got;
    ForEachIndex(part, [&](const std::vector<int64_t>& index) { want.push_back(Position(container, index)); });
    int runs = 0;
    ForEachRun(container, part, [&](int64_t offset, int64_t elements, int64_t part_offset) {
      ASSERT_EQ(part_offset, static_cast<int64_t>(got.size()));
      ASSERT_GT(elements, 0);
      for (int64_t i = 0; i < elements; ++i) got.push_back(offset + i);
      ++runs;
    });
    ASSERT_EQ(got, want);
    const bool contiguous = want.empty() || want.back() - want.front() + 1 == static_cast<int64_t>(want.size());
    ASSERT_EQ(IsContiguous(container, part), contiguous);
    ASSERT_TRUE(!contiguous || runs <= 1);
    ASSERT_TRUE(want.empty() || FirstElement(container, part) == want[0]);
  }
}

TEST_F(BoxPropertyTest, CopyBoxMovesThePartAndNothingElse) {
  for (int round = 0; round < kRounds; ++round) {
    const Box whole = Box::Whole(RandomShape(random_));
    const Box part = RandomBox(random_, whole);
    // Two blocks that contain the part.
    Box source = part, target = part;
    for (Box* box : {&source, &target}) {
      for (int d = 0; d < part.rank(); ++d) {
        const int64_t before = Uniform(random_, 0, part.offset[d]);
        const int64_t behind = Uniform(random_, 0, whole.size[d] - part.offset[d] - part.size[d]);
        box->offset[d] -= before;
        box->size[d] += before + behind;
      }
    }
    constexpr int64_t kItemSizes[] = {1, 2, 4, 8, 3};
    const int64_t item_size = kItemSizes[Uniform(random_, 0, 4)];
    std::string from(source.elements() * item_size, '\0');
    for (char& c : from) c = static_cast<char>(Uniform(random_, 1, 255));
    std::string to(target.elements() * item_size, '\0');
    std::string want = to;
    ForEachIndex(part, [&](const std::vector<int64_t>& index) {
      std::memcpy(&want[Position(target, index) * item_size], &from[Position(source, index) * item_size], item_size);
    });
    CopyBox(from.data(), source, to.data(), target, part, item_size);
    ASSERT_EQ(to, want) << part.ToString() << " from " << source.ToString() << " to " << target.ToString();
  }
}

// The boxes of a flat range hold just its elements, once each and in order, each box in one run, and are few.
TEST_F(BoxPropertyTest, FlatRangesAreFewContiguousBoxes) {
  for (int round = 0; round < kRounds; ++round) {
    const Shape shape = RandomShape(random_);
    const Box whole = Box::Whole(shape);
    const int64_t a = Uniform(random_, 0, whole.elements());
    const int64_t b = Uniform(random_, 0, whole.elements());
    const int64_t begin = std::min(a, b);
    const int64_t end = std::max(a, b);
    const std::vector<Box> boxes = BoxesOfFlatRange(shape, begin, end);
    ASSERT_LE(boxes.size(), static_cast<size_t>(std::max(1, 2 * whole.rank() - 1))) << ShapeToString(shape);
    int64_t next = begin;
    for (const Box& box : boxes) {
      ASSERT_FALSE(box.empty());
      ASSERT_TRUE(IsContiguous(whole, box)) << box.ToString() << " of " << ShapeToString(shape);
      ASSERT_EQ(FirstElement(whole, box), next) << box.ToString() << " of " << ShapeToString(shape);
      next += box.elements();
    }
    ASSERT_EQ(next, end) << ShapeToString(shape);
  }
}

}  // namespace
}  // namespace shardwright
