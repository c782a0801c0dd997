// Lines for people, from rank 0, that do not tear what callbacks have on the terminal.
#ifndef SHARDWRIGHT_CORE_TRAINER_NOTES_H_
#define SHARDWRIGHT_CORE_TRAINER_NOTES_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "shardwright/core/callback/callback.h"

namespace shardwright {

using NoteFunction = std::function<void(absl::string_view line)>;
using Callbacks = std::vector<std::unique_ptr<Callback>>;

// Borrows the callbacks. `print` may be null.
class Notes {
 public:
  Notes(NoteFunction print, const Callbacks& callbacks, bool speaks)
      : print_(std::move(print)), callbacks_(callbacks), speaks_(speaks && print_ != nullptr) {}

  void Say(absl::string_view line) const {
    if (!speaks_) return;
    ClearTerminal();
    print_(line);
  }
  void ClearTerminal() const {
    for (const std::unique_ptr<Callback>& callback : callbacks_) callback->BeforeNote();
  }

 private:
  NoteFunction print_;
  const Callbacks& callbacks_;
  bool speaks_;
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_TRAINER_NOTES_H_
