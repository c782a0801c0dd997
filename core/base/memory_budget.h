// A cap on transient bytes, shared by every load and save of a process.
//
//   MemoryBudget budget(512 << 20);
//   SW_ASSIGN_OR_RETURN(MemoryBudget::Reservation window, budget.Reserve(64 << 20, "read window"));
//   ...                                                      // returned when `window` is destroyed
//
// "Transient" is what is held beyond the resident model state. The recorded peak is exact: it counts what was handed
// out.
#ifndef SHARDWRIGHT_CORE_BASE_MEMORY_BUDGET_H_
#define SHARDWRIGHT_CORE_BASE_MEMORY_BUDGET_H_

#include <cstdint>
#include <limits>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace shardwright {

// Thread-safe. Must outlive its reservations.
class MemoryBudget {
 public:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  // Move-only; gives its bytes back when destroyed.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&& other) noexcept;
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    ~Reservation() { Release(); }

    void Release();
    uint64_t bytes() const { return bytes_; }

   private:
    friend class MemoryBudget;
    Reservation(MemoryBudget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;  // Not owned.
    uint64_t bytes_ = 0;
  };

  explicit MemoryBudget(uint64_t limit_bytes = kUnlimited) : limit_bytes_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Waits until the bytes are free; first come, first served, so that a large request is not starved by small ones.
  // kResourceExhausted at once if `bytes` exceeds the whole limit (names `what`, need and allowance);
  // kDeadlineExceeded if the bytes were not free in time.
  absl::StatusOr<Reservation> Reserve(uint64_t bytes, absl::string_view what,
                                      absl::Duration timeout = absl::InfiniteDuration());
  // Does not wait: kResourceExhausted if the bytes are not free now, or if others wait for them.
  absl::StatusOr<Reservation> TryReserve(uint64_t bytes, absl::string_view what);

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const;
  uint64_t peak_bytes() const;
  // Starts a new peak at what is in use now.
  void ResetPeak();

 private:
  bool Fits(uint64_t bytes) const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return bytes <= limit_bytes_ - used_bytes_; }
  Reservation Take(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Return(uint64_t bytes);

  const uint64_t limit_bytes_;
  mutable absl::Mutex mu_;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t peak_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<uint64_t> waiting_ ABSL_GUARDED_BY(mu_);  // Tickets; the least is served next.
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_BASE_MEMORY_BUDGET_H_
