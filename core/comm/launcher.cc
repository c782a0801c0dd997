#include "shardwright/core/comm/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/status_macros.h"

namespace shardwright {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP};
// Ranks whose exits are seen this close together may have been reaped in any order.
constexpr absl::Duration kSettle = absl::Milliseconds(100);

// Takes SIGCHLD and the signals to forward out of delivery, to be waited for; undoes it when destroyed.
class SignalBlock {
 public:
  SignalBlock() {
    sigemptyset(&waited_);
    sigaddset(&waited_, SIGCHLD);
    for (int signal : kForwarded) {
      // What the parent told us to ignore (nohup, a shell's background job) stays ignored.
      struct sigaction action;
      if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&waited_, signal);
    }
    // An ignored SIGCHLD would lose the children's statuses.
    struct sigaction by_default = {};
    by_default.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &by_default, &old_child_action_);
    pthread_sigmask(SIG_BLOCK, &waited_, &old_mask_);
  }
  ~SignalBlock() {
    pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
    sigaction(SIGCHLD, &old_child_action_, nullptr);
  }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

  const sigset_t& old_mask() const { return old_mask_; }

  // The next signal; 0 if none comes in time.
  int Wait(absl::Duration timeout) const {
    const timespec limit = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
    const int signal = sigtimedwait(&waited_, nullptr, &limit);
    return std::max(signal, 0);
  }

 private:
  sigset_t waited_;
  sigset_t old_mask_;
  struct sigaction old_child_action_;
};

// Cores that this process may use, shared evenly.
int ThreadsPerRank(int32_t ranks) {
  cpu_set_t cores;
  const int count = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return std::max(1, count / ranks);
}

// This process's environment with the rank's variables in place of old ones.
std::vector<std::string> RankVariables(int32_t rank, const LaunchOptions& options) {
  std::vector<std::string> variables = {
      absl::StrCat("RANK=", rank),       absl::StrCat("WORLD_SIZE=", options.ranks),
      absl::StrCat("LOCAL_RANK=", rank), absl::StrCat("LOCAL_WORLD_SIZE=", options.ranks),
      "MASTER_ADDR=127.0.0.1",           absl::StrCat("MASTER_PORT=", options.store_port),
      "SHARDWRIGHT_STORE_HOSTED=1",
  };
  if (getenv("OMP_NUM_THREADS") == nullptr) {
    variables.push_back(absl::StrCat("OMP_NUM_THREADS=", ThreadsPerRank(options.ranks)));
  }
  std::vector<std::string> all = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view inherited = *entry;
    const absl::string_view name = inherited.substr(0, inherited.find('='));
    const bool replaced = std::any_of(variables.begin(), variables.end(), [&](const std::string& variable) {
      return absl::StartsWith(variable, absl::StrCat(name, "="));
    });
    if (!replaced) all.emplace_back(inherited);
  }
  return all;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

struct Rank {
  pid_t pid = 0;
  bool running = false;
  int wait_status = 0;  // once it has ended

  bool Killed() const { return WIFSIGNALED(wait_status); }
  int ExitStatus() const { return Killed() ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status); }
};

// After fork, in the child: nothing but async-signal-safe calls, since other threads may have held locks.
[[noreturn]] void RunChild(char* const* argv, char* const* environment, pid_t launcher, const sigset_t& mask,
                           int error_fd) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);  // it died before prctl
  const int null_fd = open("/dev/null", O_RDONLY);
  if (null_fd > 0) {
    dup2(null_fd, 0);
    close(null_fd);
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execve(argv[0], argv, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(127);
}

absl::Status StartError(const std::string& program, int error) {
  const std::string message = absl::StrCat("starting ", program, ": ", strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

// The errno that exec failed with; 0 if the pipe closed because it went well.
int ExecError(int fd) {
  int error = 0;
  ssize_t length;
  do {
    length = read(fd, &error, sizeof(error));
  } while (length < 0 && errno == EINTR);
  return length == sizeof(error) ? error : 0;
}

absl::StatusOr<pid_t> StartRank(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                                const sigset_t& mask) {
  const std::vector<char*> arguments = Pointers(argv), variables = Pointers(environment);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return StartError(argv[0], errno);
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) RunChild(arguments.data(), variables.data(), launcher, mask, pipe_fds[1]);
  const int fork_error = errno;
  close(pipe_fds[1]);
  const int exec_error = pid < 0 ? fork_error : ExecError(pipe_fds[0]);
  close(pipe_fds[0]);
  if (exec_error == 0) return pid;
  if (pid > 0) waitpid(pid, nullptr, 0);
  return StartError(argv[0], exec_error);
}

bool HasEnded(pid_t pid) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

// The ranks of one launch, from start to end.
class Launch {
 public:
  explicit Launch(const LaunchOptions& options) : options_(options), ranks_(options.ranks) {}
  ~Launch() {
    KillAll();
    for (Rank& rank : ranks_) {
      if (rank.running) waitpid(rank.pid, nullptr, 0);
    }
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  absl::Status Start(const std::vector<std::string>& argv) {
    for (int32_t i = 0; i < options_.ranks; ++i) {
      SW_ASSIGN_OR_RETURN(ranks_[i].pid, StartRank(argv, RankVariables(i, options_), signals_.old_mask()),
                          _ << "launching rank " << i << " of " << options_.ranks);
      ranks_[i].running = true;
    }
    return absl::OkStatus();
  }

  // Until no rank runs.
  int Supervise() {
    Reap();
    while (AnyRunning()) {
      const int signal = signals_.Wait(NextDeadline() - absl::Now());
      if (signal != 0 && signal != SIGCHLD) Forward(signal);
      Reap();
      Act(absl::Now());
    }
    return Result();
  }

 private:
  bool AnyRunning() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
  }

  absl::Time NextDeadline() const {
    // Signals wake us; the hour only bounds the wait.
    return std::min({absl::Now() + absl::Hours(1), terminate_at_, kill_at_});
  }

  // The first signal is every rank's to answer; the second ends everything.
  void Forward(int signal) {
    if (forwarded_ != 0) {
      killing_ = true;
      return KillAll();
    }
    forwarded_ = signal;
    for (const Rank& rank : ranks_) {
      if (rank.running) kill(rank.pid, signal);
    }
  }

  void KillAll() {
    for (const Rank& rank : ranks_) {
      if (rank.running) kill(-rank.pid, SIGKILL);
    }
  }

  void Reap() {
    for (int32_t i = 0; i < options_.ranks; ++i) {
      Rank& rank = ranks_[i];
      if (!rank.running || !HasEnded(rank.pid)) continue;
      kill(-rank.pid, SIGKILL);  // what it left behind in its group; not yet reaped, its id is no one else's
      waitpid(rank.pid, &rank.wait_status, 0);
      rank.running = false;
      if (IsFailure(rank)) NoteFailure(i);
    }
  }

  // A rank that ends by the signal that we handed on does what it was told, whether it stopped in order or not.
  bool IsFailure(const Rank& rank) const {
    return rank.ExitStatus() != 0 && (forwarded_ == 0 || rank.ExitStatus() != 128 + forwarded_) && !killing_;
  }

  // Of ranks that end together, one killed from outside is the cause and no consequence.
  void NoteFailure(int32_t rank) {
    const bool first = failures_.empty();
    if (!first && !terminating_ && ranks_[rank].Killed() && !ranks_[failures_.front()].Killed()) {
      failures_.insert(failures_.begin(), rank);
    } else {
      failures_.push_back(rank);
    }
    if (!first) return;
    terminate_at_ = absl::Now() + kSettle;
    kill_at_ = absl::Now() + options_.grace;
  }

  void Act(absl::Time now) {
    if (now >= terminate_at_) {
      terminate_at_ = absl::InfiniteFuture();
      terminating_ = true;
      // The rank that others name is about to leave with its own status: it is not disturbed.
      const int32_t culprit = Culprit();
      for (int32_t i = 0; i < options_.ranks; ++i) {
        if (ranks_[i].running && i != culprit) kill(ranks_[i].pid, SIGTERM);
      }
    }
    if (now >= kill_at_) {
      kill_at_ = absl::InfiniteFuture();
      killing_ = true;
      KillAll();
    }
  }

  bool HasFailed(int32_t rank) const { return std::find(failures_.begin(), failures_.end(), rank) != failures_.end(); }

  // Requires a failure.
  int32_t Culprit() const {
    if (options_.first_failed_rank != nullptr && !ranks_[failures_.front()].Killed()) {
      const std::optional<int32_t> told = options_.first_failed_rank();
      if (told && *told >= 0 && *told < options_.ranks && (ranks_[*told].running || HasFailed(*told))) {
        return *told;
      }
    }
    return failures_.front();
  }

  int Result() const {
    if (failures_.empty()) {
      const bool stopped = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.ExitStatus() != 0; });
      return stopped ? 128 + forwarded_ : 0;
    }
    const int32_t culprit = Culprit();
    const Rank& rank = ranks_[culprit];
    if (rank.Killed()) {
      const char* name = sigabbrev_np(WTERMSIG(rank.wait_status));
      fprintf(stderr, "rank %d was killed by SIG%s\n", culprit, name != nullptr ? name : "?");
    } else {
      fprintf(stderr, "rank %d failed with exit status %d\n", culprit, rank.ExitStatus());
    }
    return rank.ExitStatus();
  }

  const LaunchOptions& options_;
  SignalBlock signals_;
  std::vector<Rank> ranks_;
  std::vector<int32_t> failures_;  // ranks; the likely cause first
  int forwarded_ = 0;              // the signal, once there was one
  bool terminating_ = false;
  bool killing_ = false;
  absl::Time terminate_at_ = absl::InfiniteFuture();
  absl::Time kill_at_ = absl::InfiniteFuture();
};

}  // namespace

absl::StatusOr<int> LaunchRanks(const std::vector<std::string>& argv, const LaunchOptions& options) {
  if (argv.empty()) return absl::InvalidArgumentError("launching ranks: no program given");
  if (options.ranks < 1) {
    return absl::InvalidArgumentError(absl::StrCat("launching ranks: want at least 1, got ", options.ranks));
  }
  Launch launch(options);
  SW_RETURN_IF_ERROR(launch.Start(argv));
  return launch.Supervise();
}

}  // namespace shardwright
