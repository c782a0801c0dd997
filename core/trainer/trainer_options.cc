#include "shardwright/core/trainer/trainer_options.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "shardwright/core/base/checked_math.h"
#include "shardwright/core/base/status_macros.h"
#include "shardwright/core/trainer/start_point.h"

namespace shardwright {
namespace {

absl::Status AtLeast(absl::string_view option, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, ": expected at least ", least, ", got ", value));
}

absl::Status CheckBatch(const TrainerOptions& options, int32_t world_size) {
  const std::optional<int64_t> parts = CheckedMultiply<int64_t>(world_size, options.accumulate_steps);
  if (parts.has_value() && options.batch_size % *parts == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "batch_size ", options.batch_size, " cannot be divided by world size ", world_size, " x accumulate_steps ",
      options.accumulate_steps, "; choose a multiple of ", parts.has_value() ? absl::StrCat(*parts) : "both"));
}

absl::Status CheckStart(const TrainerOptions& options) {
  SW_ASSIGN_OR_RETURN(const ResumeWish wish, ParseResumeWish(options.resume));
  const bool names_one = wish.kind == ResumeWish::Kind::kStep || wish.kind == ResumeWish::Kind::kPath;
  if (!names_one || options.init_from.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("resume \"", options.resume, "\" continues a run and init_from \"",
                                                 options.init_from, "\" starts a new one: give one of them"));
}

}  // namespace

absl::Status ValidateTrainerOptions(const TrainerOptions& options, int32_t world_size) {
  if (options.run_directory.empty()) return absl::InvalidArgumentError("run_directory: expected a path, got none");
  SW_RETURN_IF_ERROR(AtLeast("max_steps", options.max_steps, 0));
  SW_RETURN_IF_ERROR(AtLeast("batch_size", options.batch_size, 1));
  SW_RETURN_IF_ERROR(AtLeast("accumulate_steps", options.accumulate_steps, 1));
  SW_RETURN_IF_ERROR(CheckBatch(options, world_size));
  return CheckStart(options);
}

}  // namespace shardwright
