// Memory in whole pages that outlives its blocks: what is freed is kept for the next block, whatever that one's size.
//
// Memory that is mapped for a block and unmapped with it faults in page by page, each time: a third of a training step
// went there. A heap that keeps what is freed has no such faults, but holes: it grew to twice what a step has in use at
// any time. Pages avoid both: kept ones are cut and joined to serve a block, and what is in the way is returned.
#ifndef SHARDWRIGHT_CORE_DEVICE_PAGE_POOL_H_
#define SHARDWRIGHT_CORE_DEVICE_PAGE_POOL_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace shardwright {

// Thread-safe. Blocks and what is kept together never take more than blocks alone once did (most_in_use_bytes): keeping
// does not raise the peak.
class PagePool {
 public:
  PagePool() = default;
  ~PagePool();  // all blocks have been freed
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // At least one byte, aligned to a page, contents undefined. Null if the system has no memory.
  void* Allocate(uint64_t bytes);
  // Takes back a block; false if `data` is none.
  bool Free(void* data);

  // Blocks that are freed in between are kept; others go back to the system. Pairs of calls may overlap.
  void BeginKeeping();
  void EndKeeping();
  // What is kept goes back to the system.
  void ReturnKept();

  struct Counters {
    uint64_t in_use_bytes = 0;
    uint64_t most_in_use_bytes = 0;  // at one time
    uint64_t kept_bytes = 0;
    // Since creation: of all blocks, and what of it was asked of the system.
    uint64_t allocated_bytes = 0;
    uint64_t mapped_bytes = 0;
  };
  Counters counters() const;

 private:
  using Extents = std::map<char*, uint64_t>;

  char* TakeKept(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  char* Map(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Joins neighbours.
  void Keep(char* data, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Extents::iterator Forget(Extents::iterator extent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Remember(char* data, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // At least so much of what is kept, or all of it.
  void Return(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  int keepers_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<char*, uint64_t> blocks_ ABSL_GUARDED_BY(mu_);
  Extents kept_ ABSL_GUARDED_BY(mu_);                                  // by address; no two are neighbours
  std::set<std::pair<uint64_t, char*>> by_size_ ABSL_GUARDED_BY(mu_);  // the same
  Counters counters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_DEVICE_PAGE_POOL_H_
