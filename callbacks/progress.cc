#include "shardwright/callbacks/progress.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "shardwright/core/base/bytes.h"

namespace shardwright {
namespace {

constexpr size_t kWindowSteps = 32;
constexpr absl::Duration kRewriteEvery = absl::Milliseconds(100);
constexpr absl::string_view kClearLine = "\r\x1b[K";

void WriteToStandardError(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

CallbackOptions WithWriter(CallbackOptions options) {
  if (options.write == nullptr) options.write = &WriteToStandardError;
  return options;
}

// Three digits that matter; NaN and infinities as they are.
std::string FormatLoss(double loss) {
  const bool plain = !std::isfinite(loss) || (std::fabs(loss) >= 0.1 && std::fabs(loss) < 1000);
  return plain ? absl::StrFormat("%.2f", loss) : absl::StrFormat("%.3g", loss);
}

std::string FormatStep(int64_t step, int64_t max_steps) {
  const std::string last = absl::StrCat(max_steps);
  return absl::StrFormat("step %*d/%s", static_cast<int>(last.size()), step, last);
}

// As many leading fields as fit: a line that wraps cannot be rewritten.
std::string Fit(const std::vector<std::string>& fields, int columns) {
  std::string line;
  for (const std::string& field : fields) {
    const std::string longer = line.empty() ? field : absl::StrCat(line, "  ", field);
    if (static_cast<int>(longer.size()) >= columns) break;
    line = longer;
  }
  return line;
}

}  // namespace

Progress::Progress(const CallbackOptions& options)
    : options_(WithWriter(options)), silent_(options.quiet), throughput_(kWindowSteps) {}

// A run that failed leaves its last line standing, and the prompt goes below it.
Progress::~Progress() {
  if (line_is_open_) options_.write("\n");
}

void Progress::OnTrainStart(const TrainState& state) {
  silent_ = options_.quiet || state.rank != 0;
}

Action Progress::OnStepEnd(const TrainState& state) {
  stepped_ = true;
  throughput_.Add(state.step_tokens, state.step_duration, state.elapsed);
  if (options_.terminal) {
    const bool due = shown_step_ < 0 || state.elapsed - shown_at_ >= kRewriteEvery;
    if (due || state.progress.step == state.max_steps) Show(state);
  } else if (options_.log_every_steps > 0 && state.progress.step % options_.log_every_steps == 0) {
    Show(state);
  }
  return {};
}

Action Progress::OnTrainEnd(const TrainState& state) {
  // A checkpoint of the last step took the terminal's line away; the last loss should stay.
  const bool shown = shown_step_ == state.progress.step && (line_is_open_ || !options_.terminal);
  if (stepped_ && !shown) Show(state);
  if (line_is_open_) options_.write("\n");
  line_is_open_ = false;
  return {};
}

void Progress::OnSaved(const SavedCheckpoint& saved) {
  PrintLine(absl::StrFormat("saved step %d  %s  %.2f s", saved.step, FormatBytes(saved.total_bytes),
                            absl::ToDoubleSeconds(saved.duration)));
}

void Progress::BeforeNote() {
  if (line_is_open_) options_.write(kClearLine);
  line_is_open_ = false;
}

std::vector<std::string> Progress::Fields(const TrainState& state) const {
  std::vector<std::string> fields = {FormatStep(state.progress.step, state.max_steps),
                                     absl::StrCat("loss ", FormatLoss(state.loss)),
                                     absl::StrCat(FormatRate(throughput_.TokensPerSecond()), " tok/s")};
  const int64_t steps_left = state.max_steps - state.progress.step;
  if (steps_left > 0) fields.push_back(absl::StrCat("eta ", FormatTimeLeft(throughput_.TimeLeft(steps_left))));
  return fields;
}

void Progress::Show(const TrainState& state) {
  shown_step_ = state.progress.step;
  shown_at_ = state.elapsed;
  if (options_.terminal)
    Rewrite(state);
  else
    PrintLine(absl::StrJoin(Fields(state), "  "));
}

void Progress::Rewrite(const TrainState& state) {
  if (silent_) return;
  options_.write(absl::StrCat(kClearLine, Fit(Fields(state), options_.terminal_columns)));
  line_is_open_ = true;
}

void Progress::PrintLine(absl::string_view line) {
  if (silent_) return;
  BeforeNote();
  options_.write(absl::StrCat(line, "\n"));
}

std::unique_ptr<Callback> MakeProgress(const CallbackOptions& options) {
  return std::make_unique<Progress>(options);
}

}  // namespace shardwright
