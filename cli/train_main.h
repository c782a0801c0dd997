// The command line with a program's own models, strategies and callbacks:
//
//   #include "shardwright/train_main.h"                 // deps = ["@shardwright//:train_main"]
//
//   int main(int argc, char** argv) {
//     return shardwright::TrainMain(argc, argv, {.models = {{"ours", {&MakeOurs, OursDefaults(), "our model"}}}});
//   }
//
// The program then has every verb of `shardwright`; `train --model=ours` finds the row. Added callbacks run when
// --callbacks names them.
#ifndef SHARDWRIGHT_TRAIN_MAIN_H_
#define SHARDWRIGHT_TRAIN_MAIN_H_

#include "shardwright/cli/app/tables.h"

namespace shardwright {

// Returns the exit status.
int TrainMain(int argc, char** argv, const Tables& own = {});

}  // namespace shardwright

#endif  // SHARDWRIGHT_TRAIN_MAIN_H_
