// Shardwright's command line with a model and a callback that it does not know.
#include "bigram.h"
#include "shardwright/train_main.h"
#include "stop_below.h"

int main(int argc, char** argv) {
  return shardwright::TrainMain(
      argc, argv,
      {.models = {{"bigram", trainer::BigramFactory()}}, .callbacks = {{"stop_below", trainer::StopBelow(4.0)}}});
}
