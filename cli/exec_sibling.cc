#include "shardwright/cli/exec_sibling.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "shardwright/cli/command.h"

namespace shardwright::cli {

std::string SelfPath() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length < 0 ? "" : std::string(path, static_cast<size_t>(length));
}

int ExecSibling(const std::string& program, const std::string& verb, const std::vector<std::string>& words) {
  const std::string self = SelfPath();
  const std::string path = absl::StrCat(self.substr(0, self.rfind('/') + 1), program);
  std::vector<char*> argv = {const_cast<char*>(path.c_str()), const_cast<char*>(verb.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  return ReportError(verb, absl::InternalError(absl::StrCat("cannot start ", path, ": ", std::strerror(errno),
                                                            "; this verb needs the program that links LibTorch "
                                                            "(bazel build //cli:",
                                                            program, ")")));
}

}  // namespace shardwright::cli
