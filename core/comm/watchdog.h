// Watchdog: does something if a scope is not left in time. Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_WATCHDOG_H_
#define SHARDWRIGHT_CORE_COMM_WATCHDOG_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace shardwright {

// For blocking calls of libraries that take no deadline. Costs a thread: for rare paths.
class Watchdog {
 public:
  Watchdog(absl::Duration timeout, std::function<void()> bark)
      : thread_([this, timeout, bark = std::move(bark)] {
          if (!left_.WaitForNotificationWithTimeout(timeout)) bark();
        }) {}
  ~Watchdog() {
    left_.Notify();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  absl::Notification left_;
  std::thread thread_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_WATCHDOG_H_
