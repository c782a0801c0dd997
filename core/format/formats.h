// Which formats there are, and which one a path is of.
//
//   SW_ASSIGN_OR_RETURN(OpenedCheckpoint opened, OpenAnyCheckpoint(storage, "out/deepspeed"));
//   OpenedSource(storage, opened).Read("wte.weight", box, out);
#ifndef SHARDWRIGHT_CORE_FORMAT_FORMATS_H_
#define SHARDWRIGHT_CORE_FORMAT_FORMATS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/base/table.h"
#include "shardwright/core/format/format.h"
#include "shardwright/core/storage/storage.h"

namespace shardwright {

// In the order in which they are tried. A program adds rows to a copy.
using FormatTable = Table<CheckpointFormat>;
const FormatTable& Formats();

// The first format that knows the path by its content; extensions prove nothing. kInvalidArgument saying what the path
// looks like and naming the known formats, if none does; kNotFound if there is nothing. `storage` must outlive what is
// returned.
absl::StatusOr<OpenedCheckpoint> OpenAnyCheckpoint(Storage& storage, absl::string_view path,
                                                   const OpenOptions& options = {},
                                                   const FormatTable& formats = Formats());

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_FORMAT_FORMATS_H_
