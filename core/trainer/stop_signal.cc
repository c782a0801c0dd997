#include "shardwright/core/trainer/stop_signal.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "shardwright/core/base/check.h"

namespace shardwright {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
constexpr int64_t kEchoNanos = 250'000'000;

// Handlers may touch lock-free atomics alone.
std::atomic<int> received_signal{0};
std::atomic<int64_t> received_at_nanos{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

ABSL_CONST_INIT absl::Mutex mu(absl::kConstInit);
int holders ABSL_GUARDED_BY(mu) = 0;
struct sigaction old_actions[2] ABSL_GUARDED_BY(mu);

int64_t MonotonicNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);  // async-signal-safe
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void OnSignal(int signal) {
  const int64_t now = MonotonicNanos();
  // The time first: a second thread's handler that sees the signal must see its time, too.
  int64_t unset = 0;
  received_at_nanos.compare_exchange_strong(unset, now);
  int none = 0;
  if (received_signal.compare_exchange_strong(none, signal)) return;
  if (now - received_at_nanos.load() >= kEchoNanos) _exit(128 + signal);
}

}  // namespace

StopSignal::StopSignal() {
  absl::MutexLock lock(&mu);
  if (holders++ > 0) return;
  received_signal = 0;
  received_at_nanos = 0;
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int signal : kSignals) sigaddset(&action.sa_mask, signal);
  for (int i = 0; i < 2; ++i) SW_CHECK(sigaction(kSignals[i], &action, &old_actions[i]) == 0);
}

StopSignal::~StopSignal() {
  absl::MutexLock lock(&mu);
  if (--holders > 0) return;
  for (int i = 0; i < 2; ++i) SW_CHECK(sigaction(kSignals[i], &old_actions[i], nullptr) == 0);
  received_signal = 0;  // a later run of this process does not stop for it
}

int StopSignal::received() {
  return received_signal.load();
}

}  // namespace shardwright
