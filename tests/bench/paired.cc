#include "shardwright/tests/bench/paired.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shardwright/core/base/bytes.h"
#include "shardwright/core/base/version.h"

namespace shardwright::bench {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace

PairedResult RunPairs(int pairs, const std::function<double()>& ours, const std::function<double()>& theirs) {
  ours();
  theirs();
  std::vector<double> our_seconds, their_seconds, ratios;
  for (int i = 0; i < pairs; ++i) {
    our_seconds.push_back(ours());
    their_seconds.push_back(theirs());
    ratios.push_back(their_seconds.back() / our_seconds.back());
  }
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  return {Median(our_seconds), Median(their_seconds), Median(ratios), *least, *most};
}

std::string FormatPaired(absl::string_view scenario, uint64_t bytes, const PairedResult& result) {
  const double gib = static_cast<double>(bytes) / (1 << 30);
  return absl::StrFormat("%-28s %6.2f GiB/s  beside %6.2f  ratio %.2f (%.2f..%.2f)\n", scenario,
                         gib / result.ours_seconds, gib / result.theirs_seconds, result.ratio, result.ratio_min,
                         result.ratio_max);
}

std::string DescribeMachine() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::StrCat("shardwright ", kVersion, " · ", Processor(), " · ", sysconf(_SC_NPROCESSORS_ONLN),
                      " cores · peak RSS ", FormatBytes(static_cast<uint64_t>(usage.ru_maxrss) * 1024), "\n");
}

}  // namespace shardwright::bench
