// The half of the command line that links LibTorch; `shardwright` starts it for the verbs that need it.
#include "shardwright/train_main.h"

int main(int argc, char** argv) {
  return shardwright::TrainMain(argc, argv);
}
