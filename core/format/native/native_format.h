// The native checkpoint as a row of the table of formats.
#ifndef SHARDWRIGHT_CORE_FORMAT_NATIVE_NATIVE_FORMAT_H_
#define SHARDWRIGHT_CORE_FORMAT_NATIVE_NATIVE_FORMAT_H_

#include "shardwright/core/format/format.h"

namespace shardwright {

CheckpointFormat NativeFormat();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_NATIVE_NATIVE_FORMAT_H_
