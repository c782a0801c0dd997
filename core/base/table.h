// A table of named things: strategies, models, callbacks, formats. Tables are plain values that a program builds and
// hands on; there are no static registrars, so a link never loses a row and a monorepo adds its own rows.
#ifndef SHARDWRIGHT_CORE_BASE_TABLE_H_
#define SHARDWRIGHT_CORE_BASE_TABLE_H_

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/base/nearest.h"

namespace shardwright {

// Name -> row, in the order added. Thread-compatible.
template <typename Row>
class Table {
 public:
  // `what` names the kind of row in messages: "strategy".
  Table(absl::string_view what, std::initializer_list<std::pair<std::string, Row>> rows) : what_(what), rows_(rows) {}

  // By name or alias. kInvalidArgument, with the nearest name and all known ones, if there is no such row.
  absl::StatusOr<Row> Find(absl::string_view name) const {
    for (const auto& [alias, aliased] : aliases_) {
      if (alias == name) name = aliased;
    }
    for (const auto& [key, row] : rows_) {
      if (key == name) return row;
    }
    std::vector<std::string> names = Names();
    for (const auto& [alias, aliased] : aliases_) names.push_back(alias);
    std::string nearest = NearestName(name, names);
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown ", what_, " \"", name, "\"", nearest.empty() ? "" : absl::StrCat(", did you mean \"", nearest, "\"?"),
        " (known: ", absl::StrJoin(names, ", "), ")"));
  }

  // A row of the same name replaces the old one.
  void Add(absl::string_view name, Row row) {
    for (auto& [key, old] : rows_) {
      if (key == name) {
        old = std::move(row);
        return;
      }
    }
    rows_.emplace_back(std::string(name), std::move(row));
  }

  // A second name of a row, for people who know it by that.
  void AddAlias(absl::string_view alias, absl::string_view name) {
    aliases_.emplace_back(std::string(alias), std::string(name));
  }

  // Without aliases.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [key, row] : rows_) names.push_back(key);
    return names;
  }

  const std::vector<std::pair<std::string, Row>>& rows() const { return rows_; }

 private:
  std::string what_;
  std::vector<std::pair<std::string, Row>> rows_;
  std::vector<std::pair<std::string, std::string>> aliases_;  // alias -> name
};

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_BASE_TABLE_H_
