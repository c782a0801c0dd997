#include "shardwright/callbacks/throughput.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shardwright {

void Throughput::Add(int64_t tokens, absl::Duration step, absl::Duration elapsed) {
  steps_.push_back({tokens, step, elapsed});
  if (steps_.size() > window_steps_) steps_.pop_front();
}

double Throughput::TokensPerSecond() const {
  int64_t tokens = 0;
  absl::Duration duration;
  for (const Step& step : steps_) {
    tokens += step.tokens;
    duration += step.duration;
  }
  return duration > absl::ZeroDuration() ? tokens / absl::ToDoubleSeconds(duration) : 0;
}

absl::Duration Throughput::TimeLeft(int64_t steps) const {
  if (steps_.empty()) return absl::ZeroDuration();
  if (steps_.size() == 1) return steps * steps_.front().duration;
  const absl::Duration span = steps_.back().elapsed - steps_.front().elapsed;
  return steps * (span / static_cast<int64_t>(steps_.size() - 1));
}

std::string FormatRate(double per_second) {
  constexpr absl::string_view kUnits[] = {"", "k", "M", "G"};
  size_t unit = 0;
  // 999.5 and more would round to four digits.
  while (per_second >= 999.5 && unit + 1 < std::size(kUnits)) {
    per_second /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.*f%s", unit > 0 && per_second < 9.95 ? 1 : 0, per_second, kUnits[unit]);
}

std::string FormatTimeLeft(absl::Duration left) {
  const int64_t seconds = std::llround(absl::ToDoubleSeconds(left));
  if (seconds < 60) return absl::StrCat(seconds, " s");
  if (seconds < 3600) return absl::StrFormat("%d min %02d s", seconds / 60, seconds % 60);
  return absl::StrFormat("%d h %02d min", seconds / 3600, seconds % 3600 / 60);
}

}  // namespace shardwright
