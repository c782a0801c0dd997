// Throughput over a moving window of steps, and the time that is left.
#ifndef SHARDWRIGHT_CALLBACKS_THROUGHPUT_H_
#define SHARDWRIGHT_CALLBACKS_THROUGHPUT_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"

namespace shardwright {

// Value semantics.
class Throughput {
 public:
  explicit Throughput(size_t window_steps) : window_steps_(window_steps) {}

  // A finished step: its tokens, its own time, and the time of the run at its end.
  void Add(int64_t tokens, absl::Duration step, absl::Duration elapsed);
  // While stepping; time spent saving does not count. 0 before the first step.
  double TokensPerSecond() const;
  // From one step's end to the next, so that saving counts: what a person waits.
  absl::Duration TimeLeft(int64_t steps) const;

 private:
  struct Step {
    int64_t tokens;
    absl::Duration duration;
    absl::Duration elapsed;
  };
  size_t window_steps_;
  std::deque<Step> steps_;
};

// "950", "4.1k", "41k", "1.2M"
std::string FormatRate(double per_second);
// "31 s", "4 min 05 s", "2 h 10 min"
std::string FormatTimeLeft(absl::Duration left);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CALLBACKS_THROUGHPUT_H_
