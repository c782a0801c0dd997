// SIGINT and SIGTERM as a flag: the first sets it, the second ends the process at once with 128 + signal.
#ifndef SHARDWRIGHT_CORE_TRAINER_STOP_SIGNAL_H_
#define SHARDWRIGHT_CORE_TRAINER_STOP_SIGNAL_H_

namespace shardwright {

// Installs the handlers; restores the old ones when destroyed. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal received first, or 0.
  static int received();
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_STOP_SIGNAL_H_
