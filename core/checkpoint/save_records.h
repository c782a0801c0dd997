// What ranks tell each other during a save, and the manifest that rank 0 makes of it.
#ifndef SHARDWRIGHT_CORE_CHECKPOINT_SAVE_RECORDS_H_
#define SHARDWRIGHT_CORE_CHECKPOINT_SAVE_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardwright/core/checkpoint/item_writer.h"
#include "shardwright/core/checkpoint/save_content.h"
#include "shardwright/core/manifest/manifest.h"
#include "shardwright/core/plan/save_plan.h"

namespace shardwright {

// The header that a file's creator has written.
struct HeaderRecord {
  uint32_t file = 0;  // index into SavePlan::files
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  friend bool operator==(const HeaderRecord&, const HeaderRecord&) = default;
};
std::string EncodeHeaderRecords(const std::vector<HeaderRecord>& records);
// One record per planned file, in the order of the files, from the messages of all ranks. kInternal unless each file
// has exactly one.
absl::StatusOr<std::vector<HeaderRecord>> DecodeHeaderRecords(const std::vector<std::string>& messages,
                                                              const SavePlan& plan);

// What a rank has written: its own extras, and checksums of its items in their order. Compact, since all ranks get it:
// 16 bytes an item and 4 bytes per 64 KiB.
struct RankRecord {
  Value::Map extras;
  std::vector<ItemChecksums> items;
};
absl::StatusOr<std::string> EncodeRankRecord(const Value::Map& extras, const std::vector<ItemChecksums>& items);
// `items` are the rank's in the plan. kInternal if the message does not fit them.
absl::StatusOr<RankRecord> DecodeRankRecord(absl::string_view message, const std::vector<WriteItem>& items);

// `headers` by file, `messages` (encoded rank records) by rank.
absl::StatusOr<std::shared_ptr<const Manifest>> BuildManifest(const SavePlan& plan, const SaveContent& content,
                                                              const std::vector<HeaderRecord>& headers,
                                                              const std::vector<std::string>& messages);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_CHECKPOINT_SAVE_RECORDS_H_
