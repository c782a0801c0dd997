// Flags that several verbs share; each is defined once.
#ifndef SHARDWRIGHT_CLI_COMMON_FLAGS_H_
#define SHARDWRIGHT_CLI_COMMON_FLAGS_H_

#include <gflags/gflags_declare.h>

DECLARE_bool(json);
DECLARE_bool(quiet);
DECLARE_string(check);
DECLARE_string(device);
DECLARE_uint64(seed);

#endif  // SHARDWRIGHT_CLI_COMMON_FLAGS_H_
