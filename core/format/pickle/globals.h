// What the names in pickles mean to a reader that runs nothing.
#ifndef SHARDWRIGHT_CORE_FORMAT_PICKLE_GLOBALS_H_
#define SHARDWRIGHT_CORE_FORMAT_PICKLE_GLOBALS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/format/pickle/graph.h"

namespace shardwright::pickle {

// Python 3's name of a module that protocol 2 writes under Python 2's: "__builtin__" -> "builtins".
absl::string_view ModernModule(absl::string_view module);

// True for what would act if a pickle were loaded the usual way: os.system, builtins.eval, subprocess.*... A file that
// names one is an attack, whoever else is fooled.
bool IsHostileGlobal(absl::string_view module, absl::string_view name);

// kDataLoss naming the global, if the graph names a hostile one, or reaches for one with getattr.
absl::Status CheckHarmless(const Graph& graph);

}  // namespace shardwright::pickle

#endif  // SHARDWRIGHT_CORE_FORMAT_PICKLE_GLOBALS_H_
