#include "shardwright/core/base/memory_budget.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardwright/core/base/bytes.h"

namespace shardwright {
namespace {

std::string Need(absl::string_view what, uint64_t bytes) {
  return absl::StrCat("reserving ", FormatBytes(bytes), " (", bytes, " bytes) for ", what);
}

std::string Allowance(uint64_t used_bytes, uint64_t limit_bytes) {
  return absl::StrCat(FormatBytes(used_bytes), " of the memory budget of ", FormatBytes(limit_bytes), " (", limit_bytes,
                      " bytes) are in use");
}

}  // namespace

MemoryBudget::Reservation::Reservation(Reservation&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryBudget::Reservation& MemoryBudget::Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  budget_ = std::exchange(other.budget_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void MemoryBudget::Reservation::Release() {
  if (MemoryBudget* budget = std::exchange(budget_, nullptr)) budget->Return(std::exchange(bytes_, 0));
}

absl::StatusOr<MemoryBudget::Reservation> MemoryBudget::Reserve(uint64_t bytes, absl::string_view what,
                                                                absl::Duration timeout) {
  if (bytes > limit_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(Need(what, bytes), ": the whole memory budget is ",
                                                     FormatBytes(limit_bytes_), " (", limit_bytes_, " bytes)"));
  }
  absl::MutexLock lock(&mu_);
  const uint64_t ticket = next_ticket_++;
  waiting_.insert(ticket);
  const auto my_turn = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return *waiting_.begin() == ticket && Fits(bytes); };
  const bool granted = mu_.AwaitWithTimeout(absl::Condition(&my_turn), timeout);
  waiting_.erase(ticket);
  if (granted) return Take(bytes);
  return absl::DeadlineExceededError(absl::StrCat(Need(what, bytes), ": not free after ", absl::FormatDuration(timeout),
                                                  ", ", Allowance(used_bytes_, limit_bytes_)));
}

absl::StatusOr<MemoryBudget::Reservation> MemoryBudget::TryReserve(uint64_t bytes, absl::string_view what) {
  absl::MutexLock lock(&mu_);
  if (waiting_.empty() && Fits(bytes)) return Take(bytes);
  return absl::ResourceExhaustedError(
      absl::StrCat(Need(what, bytes), ": ", Allowance(used_bytes_, limit_bytes_),
                   waiting_.empty() ? "" : absl::StrCat(", ", waiting_.size(), " earlier requests wait")));
}

uint64_t MemoryBudget::used_bytes() const {
  absl::MutexLock lock(&mu_);
  return used_bytes_;
}

uint64_t MemoryBudget::peak_bytes() const {
  absl::MutexLock lock(&mu_);
  return peak_bytes_;
}

void MemoryBudget::ResetPeak() {
  absl::MutexLock lock(&mu_);
  peak_bytes_ = used_bytes_;
}

MemoryBudget::Reservation MemoryBudget::Take(uint64_t bytes) {
  used_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  return Reservation(this, bytes);
}

void MemoryBudget::Return(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  used_bytes_ -= bytes;
}

}  // namespace shardwright
