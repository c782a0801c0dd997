// What a run starts from. Looks at names and structure alone; called on rank 0, which tells the others.
#ifndef SHARDWRIGHT_CORE_TRAINER_START_POINT_H_
#define SHARDWRIGHT_CORE_TRAINER_START_POINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

// TrainerOptions::resume, taken apart.
struct ResumeWish {
  enum class Kind { kAuto, kNone, kStep, kPath };
  Kind kind = Kind::kAuto;
  int64_t step = 0;       // kStep
  std::string path = {};  // kPath, as given
};
// kInvalidArgument for an empty text or a step that no run can reach.
absl::StatusOr<ResumeWish> ParseResumeWish(absl::string_view text);

struct StartPoint {
  enum class Kind {
    kFresh,
    kContinue,     // everything
    kWeightsOnly,  // init_from
  };
  Kind kind = Kind::kFresh;
  std::string path;                  // of a real directory, links followed; empty for kFresh
  std::vector<std::string> skipped;  // damaged ones that were passed over: "step-00000200: <why>"
};

// kNotFound naming what there is, if the one that was asked for is absent; kDataLoss if the run has checkpoints and
// none is intact: starting fresh would hide the loss.
absl::StatusOr<StartPoint> ChooseStartPoint(Storage& storage, absl::string_view run_directory, const ResumeWish& wish,
                                            absl::string_view init_from);

// After the bytes of `failed` were found damaged: the next older checkpoint that is intact. kDataLoss naming all that
// were skipped if there is none.
absl::StatusOr<StartPoint> ChooseOlder(Storage& storage, absl::string_view run_directory, const StartPoint& failed,
                                       const absl::Status& why);

// Follows `path` while it is a symlink.
absl::StatusOr<std::string> FollowLinks(Storage& storage, std::string path);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_START_POINT_H_
