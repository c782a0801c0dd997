// The table of callbacks.
#ifndef SHARDWRIGHT_CALLBACKS_CALLBACKS_H_
#define SHARDWRIGHT_CALLBACKS_CALLBACKS_H_

#include "shardwright/core/callback/callback.h"

namespace shardwright {

// A fresh copy, to which a program adds its own rows.
CallbackTable BuiltinCallbacks();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CALLBACKS_CALLBACKS_H_
