// The order in which units run, learned from the pass before, so that the next one's parameters can be on their way.
#ifndef SHARDWRIGHT_STRATEGIES_ZERO3_UNIT_ORDER_H_
#define SHARDWRIGHT_STRATEGIES_ZERO3_UNIT_ORDER_H_

#include <cstddef>
#include <optional>
#include <vector>

namespace shardwright {

// Not thread-safe. The same on every rank, as long as all run the same units in the same order.
class UnitOrder {
 public:
  // A pass begins. The unit that will run first, if the last pass tells.
  std::optional<int> Begin();
  // Forward runs `unit`. The unit after it, if this pass has been like the last one so far.
  std::optional<int> Forward(int unit);
  // True if, to all appearance, no unit runs in forward after the one that Forward was told of last.
  bool is_last() const;
  // Backward reaches `unit`. The unit that ran before it.
  std::optional<int> Backward(int unit);

 private:
  std::vector<int> before_;
  std::vector<int> current_;
  bool same_ = true;     // as far as this pass came
  size_t backward_ = 0;  // units before this one were not reached by backward
  bool in_backward_ = false;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_STRATEGIES_ZERO3_UNIT_ORDER_H_
