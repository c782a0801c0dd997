// A callback of one's own: ends the run once the loss is low enough.
#ifndef TRAINER_STOP_BELOW_H_
#define TRAINER_STOP_BELOW_H_

#include "shardwright/core/callback/callback.h"

namespace trainer {

shardwright::CallbackFactory StopBelow(double loss);

}  // namespace trainer

#endif  // TRAINER_STOP_BELOW_H_
