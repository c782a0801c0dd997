// SW_CHECK ends the process on a broken invariant of our own code. Files, peers and flags never get here: they are
// answered with a Status. It has its own prefix because torch's headers redefine CHECK and LOG.
#ifndef SHARDWRIGHT_CORE_BASE_CHECK_H_
#define SHARDWRIGHT_CORE_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define SW_CHECK(condition)                                                                  \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#endif  // SHARDWRIGHT_CORE_BASE_CHECK_H_
