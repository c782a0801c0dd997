// A model of one's own: the next byte from the last one alone.
#ifndef TRAINER_BIGRAM_H_
#define TRAINER_BIGRAM_H_

#include "shardwright/core/module/module.h"

namespace trainer {

shardwright::ModelFactory BigramFactory();

}  // namespace trainer

#endif  // TRAINER_BIGRAM_H_
