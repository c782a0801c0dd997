// Shows ThreadSanitizer what Abseil's mutexes order. Debian's Abseil is not instrumented: without this, everything that
// an absl::Mutex guards looks like a data race. The linker redirects each call of a function below here (--wrap, see
// BUILD), and each adds the happens-before edge that the real one means.
//
// Conditions are polled: the real Await evaluates them in whichever thread unlocks, where the edges would not hold.
#include <unistd.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}

// Not an unnamed namespace: the linker must see these.
namespace shardwright::tsan {

using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

// A member function as a plain one: `this` comes first in the Itanium ABI.
#define WRAPPED(result, name, symbol, ...)                  \
  result Real##name(__VA_ARGS__) __asm__("__real_" symbol); \
  result Wrap##name(__VA_ARGS__) __asm__("__wrap_" symbol); \
  result Wrap##name(__VA_ARGS__)
#define REPLACED(result, name, symbol, ...)                 \
  result Wrap##name(__VA_ARGS__) __asm__("__wrap_" symbol); \
  result Wrap##name(__VA_ARGS__)

#define ABSL "_ZN4absl7debian3"
#define ABSL_CONST "_ZNK4absl7debian3"

WRAPPED(void, Lock, ABSL "5Mutex4LockEv", Mutex* mu) {
  RealLock(mu);
  __tsan_acquire(mu);
}
WRAPPED(bool, TryLock, ABSL "5Mutex7TryLockEv", Mutex* mu) {
  const bool locked = RealTryLock(mu);
  if (locked) __tsan_acquire(mu);
  return locked;
}
WRAPPED(void, Unlock, ABSL "5Mutex6UnlockEv", Mutex* mu) {
  __tsan_release(mu);
  RealUnlock(mu);
}
WRAPPED(void, ReaderLock, ABSL "5Mutex10ReaderLockEv", Mutex* mu) {
  RealReaderLock(mu);
  __tsan_acquire(mu);
}
WRAPPED(void, ReaderUnlock, ABSL "5Mutex12ReaderUnlockEv", Mutex* mu) {
  __tsan_release(mu);
  RealReaderUnlock(mu);
}

// For exclusive holders.
bool Poll(Mutex* mu, const Condition& condition, Time deadline) {
  while (!condition.Eval()) {
    if (absl::Now() >= deadline) return false;
    WrapUnlock(mu);
    usleep(200);
    WrapLock(mu);
  }
  return true;
}

REPLACED(void, Await, ABSL "5Mutex5AwaitERKNS0_9ConditionE", Mutex* mu, const Condition& condition) {
  Poll(mu, condition, absl::InfiniteFuture());
}
REPLACED(bool, AwaitWithTimeout, ABSL "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE", Mutex* mu,
         const Condition& condition, Duration timeout) {
  return Poll(mu, condition, absl::Now() + timeout);
}
REPLACED(bool, AwaitWithDeadline, ABSL "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE", Mutex* mu,
         const Condition& condition, Time deadline) {
  return Poll(mu, condition, deadline);
}
REPLACED(void, LockWhen, ABSL "5Mutex8LockWhenERKNS0_9ConditionE", Mutex* mu, const Condition& condition) {
  WrapLock(mu);
  Poll(mu, condition, absl::InfiniteFuture());
}
REPLACED(bool, LockWhenWithTimeout, ABSL "5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE", Mutex* mu,
         const Condition& condition, Duration timeout) {
  WrapLock(mu);
  return Poll(mu, condition, absl::Now() + timeout);
}
REPLACED(bool, LockWhenWithDeadline, ABSL "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE", Mutex* mu,
         const Condition& condition, Time deadline) {
  WrapLock(mu);
  return Poll(mu, condition, deadline);
}

WRAPPED(void, Wait, ABSL "7CondVar4WaitEPNS0_5MutexE", CondVar* cv, Mutex* mu) {
  __tsan_release(mu);
  RealWait(cv, mu);
  __tsan_acquire(mu);
}
WRAPPED(bool, WaitWithTimeout, ABSL "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE", CondVar* cv, Mutex* mu,
        Duration timeout) {
  __tsan_release(mu);
  const bool timed_out = RealWaitWithTimeout(cv, mu, timeout);
  __tsan_acquire(mu);
  return timed_out;
}
WRAPPED(bool, WaitWithDeadline, ABSL "7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE", CondVar* cv, Mutex* mu,
        Time deadline) {
  __tsan_release(mu);
  const bool timed_out = RealWaitWithDeadline(cv, mu, deadline);
  __tsan_acquire(mu);
  return timed_out;
}

WRAPPED(void, Notify, ABSL "12Notification6NotifyEv", Notification* notification) {
  __tsan_release(notification);
  RealNotify(notification);
}
WRAPPED(void, WaitForNotification, ABSL_CONST "12Notification19WaitForNotificationEv", Notification* notification) {
  RealWaitForNotification(notification);
  __tsan_acquire(notification);
}
WRAPPED(bool, WaitForNotificationWithTimeout,
        ABSL_CONST "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE", Notification* notification,
        Duration timeout) {
  const bool notified = RealWaitForNotificationWithTimeout(notification, timeout);
  if (notified) __tsan_acquire(notification);
  return notified;
}

}  // namespace shardwright::tsan
