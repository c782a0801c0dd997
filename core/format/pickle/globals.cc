#include "shardwright/core/format/pickle/globals.h"

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace shardwright::pickle {
namespace {

// Whole modules, with what is below them.
constexpr absl::string_view kHostileModules[] = {
    "_pickle",    "_posixsubprocess",
    "asyncio",    "bdb",
    "cProfile",   "code",
    "codeop",     "commands",
    "ctypes",     "dill",
    "distutils",  "ftplib",
    "http",       "httplib",
    "idlelib",    "imp",
    "importlib",  "joblib",
    "marshal",    "multiprocessing",
    "nt",         "os",
    "pdb",        "pickle",
    "pip",        "posix",
    "pty",        "pydoc",
    "requests",   "runpy",
    "setuptools", "shutil",
    "smtplib",    "socket",
    "ssl",        "subprocess",
    "sys",        "telnetlib",
    "tempfile",   "timeit",
    "urllib",     "urllib2",
    "webbrowser",
};

constexpr absl::string_view kHostileBuiltins[] = {
    "__build_class__", "__import__", "apply", "breakpoint", "compile", "delattr", "dir",     "eval", "exec",
    "execfile",        "globals",    "help",  "input",      "locals",  "open",    "setattr", "vars",
};

struct NamedGlobal {
  absl::string_view module;
  absl::string_view name;
};
constexpr NamedGlobal kHostileGlobals[] = {
    {"operator", "attrgetter"},  {"operator", "methodcaller"},
    {"_operator", "attrgetter"}, {"_operator", "methodcaller"},
    {"torch", "load"},           {"torch.serialization", "load"},
    {"torch.hub", "load"},       {"torch.jit", "load"},
    {"numpy", "load"},           {"types", "CodeType"},
    {"types", "FunctionType"},   {"numpy", "fromfile"},
    {"pandas", "read_pickle"},   {"torch._dynamo.guards", "GuardBuilder"},
};

bool IsHostileModule(absl::string_view module) {
  return absl::c_linear_search(kHostileModules, module.substr(0, module.find('.')));
}

// getattr as such is how Python pickles nested classes and some enumerations. What it must not reach: modules,
// functions that act, and what Python hides behind underscores.
bool IsHostileAttribute(absl::string_view attribute) {
  return attribute.empty() || attribute[0] == '_' || absl::StrContains(attribute, '.') || IsHostileModule(attribute) ||
         absl::c_linear_search(kHostileBuiltins, attribute) || attribute == "system" || attribute == "popen" ||
         attribute == "getattr" || attribute == "load" || attribute == "loads";
}

absl::Status Hostile(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the pickle names ", absl::CHexEscape(what.substr(0, 200)),
                                          ", which would act when loaded: an attack. Nothing was run"));
}

absl::Status CheckCall(const Graph& graph, NodeId id) {
  if (!graph.IsCall(id, "builtins", "getattr")) return absl::OkStatus();
  const absl::Span<const NodeId> arguments = graph.arguments(id);
  const auto attribute = arguments.size() == 2 ? graph.String(arguments[1]) : std::nullopt;
  if (!attribute.has_value()) return Hostile("builtins.getattr");
  if (graph.kind(arguments[0]) != Kind::kGlobal || IsHostileAttribute(*attribute)) {
    return Hostile(absl::StrCat("builtins.getattr of \"", *attribute, "\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view ModernModule(absl::string_view module) {
  if (module == "__builtin__") return "builtins";
  if (module == "copy_reg") return "copyreg";
  if (module == "exceptions") return "builtins";
  return module;
}

bool IsHostileGlobal(absl::string_view module, absl::string_view name) {
  if (IsHostileModule(module)) return true;
  // "torch.serialization", "os.system": protocol 4 follows dots in names.
  if (absl::StrContains(name, '.') && IsHostileModule(name.substr(0, name.find('.')))) return true;
  for (absl::string_view part = name; absl::StrContains(part, '.');) {
    part.remove_prefix(part.find('.') + 1);
    if (IsHostileAttribute(part.substr(0, part.find('.')))) return true;
  }
  if (module == "builtins") return absl::c_linear_search(kHostileBuiltins, name);
  for (const NamedGlobal& global : kHostileGlobals) {
    if (global.module == module && global.name == name) return true;
  }
  return false;
}

absl::Status CheckHarmless(const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) == Kind::kGlobal && IsHostileGlobal(graph.module(id), graph.name(id))) {
      return Hostile(graph.GlobalName(id));
    }
    if (graph.kind(id) != Kind::kCall) continue;
    if (absl::Status status = CheckCall(graph, id); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace shardwright::pickle
