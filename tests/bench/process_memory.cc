#include "shardwright/tests/bench/process_memory.h"

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "shardwright/core/base/check.h"

namespace shardwright::bench {
namespace {

// A line of /proc/self/status: "RssAnon:     1234 kB".
uint64_t StatusBytes(absl::string_view key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    uint64_t kib = 0;
    if (!absl::ConsumePrefix(&rest, key) || !absl::ConsumePrefix(&rest, ":")) continue;
    SW_CHECK(absl::ConsumeSuffix(&rest, " kB") && absl::SimpleAtoi(rest, &kib));
    return kib * 1024;
  }
  SW_CHECK(false);
  return 0;
}

void ResetHighWaterMark() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  SW_CHECK(file.good());
}

}  // namespace

uint64_t AnonymousBytes() {
  return StatusBytes("RssAnon");
}

MemoryPeak::MemoryPeak() : file_bytes_(StatusBytes("RssFile") + StatusBytes("RssShmem")) {
  ResetHighWaterMark();
}

uint64_t MemoryPeak::AnonymousBytes() const {
  return StatusBytes("VmHWM") - file_bytes_;
}

}  // namespace shardwright::bench
