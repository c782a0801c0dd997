// `shardwright train` as it is, but for a callback `paced` that trains so many steps as it is told and says what they
// took: ours in tests/bench/train_speed.py.
//
//   echo 50 | train_speed train --callbacks=paced --data=... --run_dir=... --max_steps=1000000
//
// Reads counts from standard input, a line each; answers "<seconds> <loss of the last step>". Ends with the input.
#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "shardwright/core/callback/callback.h"
#include "shardwright/train_main.h"

namespace shardwright::bench {
namespace {

class Paced : public Callback {
 public:
  absl::string_view name() const override { return "paced"; }

  void OnTrainStart(const TrainState& state) override { ended_ = !Await(); }

  Action OnStepEnd(const TrainState& state) override {
    if (!ended_ && --steps_left_ > 0) return {};
    if (!ended_) {
      std::printf("%.6f %.6f\n", absl::ToDoubleSeconds(absl::Now() - began_), state.loss);
      std::fflush(stdout);
    }
    return Await() ? Action{} : Action{.stop = true, .stop_reason = "told to"};
  }

  bool MayActAt(int64_t step) const override { return ended_ || steps_left_ <= 1; }

 private:
  // False at the end of the input.
  bool Await() {
    const bool told = std::scanf("%ld", &steps_left_) == 1;
    began_ = absl::Now();
    return told;
  }

  int64_t steps_left_ = 0;
  bool ended_ = false;  // before the first step
  absl::Time began_;
};

}  // namespace
}  // namespace shardwright::bench

int main(int argc, char** argv) {
  const auto make_paced = [](const shardwright::CallbackOptions&) {
    return std::make_unique<shardwright::bench::Paced>();
  };
  return shardwright::TrainMain(argc, argv, {.callbacks = {{"paced", make_paced}}});
}
