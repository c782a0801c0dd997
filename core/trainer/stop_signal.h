// SIGINT and SIGTERM as a flag: the first sets it, the second ends the process at once with 128 + signal.
#ifndef SHARDWRIGHT_CORE_TRAINER_STOP_SIGNAL_H_
#define SHARDWRIGHT_CORE_TRAINER_STOP_SIGNAL_H_

namespace shardwright {

// Installs the handlers; restores the old ones when destroyed. One at a time: whoever owns the process makes it, before
// a run; trainers read received(). System calls under way go on (SA_RESTART).
//
// One press of Ctrl-C often arrives twice, from the terminal and from a launcher that passes it on: what comes within
// 250 ms of the first signal counts as its echo.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal received first since the handlers were installed; 0 if there is none, or no StopSignal.
  static int received();
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_STOP_SIGNAL_H_
