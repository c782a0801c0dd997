// Threads that libraries start inherit the signal mask of the thread that starts them. Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_SIGNAL_MASK_H_
#define SHARDWRIGHT_CORE_COMM_SIGNAL_MASK_H_

#include <pthread.h>
#include <signal.h>

namespace shardwright {

// Threads started in this scope take no signals but those of their own faults. So the program's handlers run in its own
// threads, and Gloo, which writes to broken connections without guarding against SIGPIPE, gets an error instead.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &old_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t old_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_SIGNAL_MASK_H_
