// Two counters, one guarded and one not: ThreadSanitizer must name the second, and with the argument "guarded" nothing.
#include <cstring>
#include <thread>

#include "absl/synchronization/mutex.h"

namespace {

absl::Mutex mu;
int guarded = 0;
int unguarded = 0;

void Count(bool guarded_only) {
  for (int i = 0; i < 1000; ++i) {
    absl::MutexLock lock(&mu);
    ++guarded;
  }
  if (!guarded_only) ++unguarded;
}

}  // namespace

int main(int argc, char** argv) {
  const bool guarded_only = argc > 1 && strcmp(argv[1], "guarded") == 0;
  std::thread other(Count, guarded_only);
  Count(guarded_only);
  other.join();
  return guarded == 2000 ? 0 : 1;
}
