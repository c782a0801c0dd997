#include "shardwright/strategies/zero3/unit_order.h"

#include <utility>

namespace shardwright {

std::optional<int> UnitOrder::Begin() {
  // A pass that ran nothing tells nothing.
  if (!current_.empty()) before_ = std::exchange(current_, {});
  same_ = true;
  in_backward_ = false;
  return before_.empty() ? std::nullopt : std::make_optional(before_.front());
}

std::optional<int> UnitOrder::Forward(int unit) {
  const size_t position = current_.size();
  current_.push_back(unit);
  same_ = same_ && position < before_.size() && before_[position] == unit;
  if (!same_ || position + 1 == before_.size()) return std::nullopt;
  return before_[position + 1];
}

bool UnitOrder::is_last() const {
  return same_ && !current_.empty() && current_.size() == before_.size();
}

std::optional<int> UnitOrder::Backward(int unit) {
  if (!std::exchange(in_backward_, true)) backward_ = current_.size();
  size_t position = backward_;
  while (position > 0 && current_[position - 1] != unit) --position;
  // Nested units come in another order than forward's: no guess then.
  if (position == 0) return std::nullopt;
  backward_ = position - 1;
  return backward_ == 0 ? std::nullopt : std::make_optional(current_[backward_ - 1]);
}

}  // namespace shardwright
