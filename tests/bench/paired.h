// Paired timing: these machines are noisy, so a speed is a ratio to a twin that ran next to it.
#ifndef SHARDWRIGHT_TESTS_BENCH_PAIRED_H_
#define SHARDWRIGHT_TESTS_BENCH_PAIRED_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace shardwright::bench {

// Seconds that one run of each side took, by turns: ours, theirs, ours, theirs, ...
struct PairedResult {
  double ours_seconds = 0;  // medians
  double theirs_seconds = 0;
  double ratio = 0;  // median of theirs / ours: 1.0 is as fast as the twin, above is faster
  double ratio_min = 0;
  double ratio_max = 0;
};

// Each function does its work once and returns the seconds of the part that counts. One uncounted pair goes first.
PairedResult RunPairs(int pairs, const std::function<double()>& ours, const std::function<double()>& theirs);

// "save  single_file  1.93 GiB/s  beside 2.01  ratio 0.96 (0.91..1.02)"
std::string FormatPaired(absl::string_view scenario, uint64_t bytes, const PairedResult& result);

// Commit, processor, cores, peak resident memory: the last line of a report.
std::string DescribeMachine();

}  // namespace shardwright::bench

#endif  // SHARDWRIGHT_TESTS_BENCH_PAIRED_H_
