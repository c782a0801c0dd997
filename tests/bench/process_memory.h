// What memory a process has of its own: anonymous pages, which no file stands behind. Mapped libraries are left out.
//
// Peaks are the kernel's, so no short one is missed as a sampling thread would: it notes the high-water mark of all
// resident pages (VmHWM) whenever pages are given back.
#ifndef SHARDWRIGHT_TESTS_BENCH_PROCESS_MEMORY_H_
#define SHARDWRIGHT_TESTS_BENCH_PROCESS_MEMORY_H_

#include <cstdint>

namespace shardwright::bench {

// Resident anonymous bytes of this process, now.
uint64_t AnonymousBytes();

// The most of them since construction. One at a time in a process: the mark is the kernel's only one.
//
// The mark counts file pages, too. Those that were there at the beginning are taken off; those that came since count as
// if they were anonymous, so that a peak may be told too high (by the libraries' code that ran for the first time), but
// not too low.
class MemoryPeak {
 public:
  MemoryPeak();
  uint64_t AnonymousBytes() const;

 private:
  uint64_t file_bytes_;
};

}  // namespace shardwright::bench

#endif  // SHARDWRIGHT_TESTS_BENCH_PROCESS_MEMORY_H_
