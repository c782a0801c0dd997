// Batches of one rank by the run's position in samples.
#ifndef SHARDWRIGHT_CORE_TRAINER_BATCH_FEED_H_
#define SHARDWRIGHT_CORE_TRAINER_BATCH_FEED_H_

#include <cstdint>
#include <vector>

#include "shardwright/core/data/sampler.h"
#include "shardwright/core/data/text_data.h"
#include "shardwright/core/module/module.h"

namespace shardwright {

// Pure. Borrows the data. Whatever world size and accumulation are, a step at the same position sees the same samples.
class BatchFeed {
 public:
  // `batch_size` is divisible by world_size * accumulate_steps.
  BatchFeed(const TextData& data, uint64_t seed, int64_t batch_size, int64_t accumulate_steps, int32_t rank,
            int32_t world_size)
      : data_(data),
        sampler_(data.samples(), seed),
        micro_batch_(batch_size / accumulate_steps),
        accumulate_steps_(accumulate_steps),
        rank_(rank),
        world_size_(world_size) {}

  // This rank's micro-batches of the step that starts after `samples_seen` samples.
  std::vector<Batch> At(int64_t samples_seen) const {
    std::vector<Batch> batches(accumulate_steps_);
    for (int64_t i = 0; i < accumulate_steps_; ++i) {
      const int64_t position = samples_seen + i * micro_batch_;
      for (int64_t index : sampler_.Slice(position, micro_batch_, rank_, world_size_)) data_.Append(index, batches[i]);
    }
    return batches;
  }

 private:
  const TextData& data_;
  Sampler sampler_;
  int64_t micro_batch_;  // samples over all ranks
  int64_t accumulate_steps_;
  int32_t rank_;
  int32_t world_size_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_BATCH_FEED_H_
