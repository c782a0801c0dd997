// FENCE: KeyValueStore over c10d's TCPStore. Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_C10D_STORE_H_
#define SHARDWRIGHT_CORE_COMM_C10D_STORE_H_

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "shardwright/core/comm/key_value_store.h"

namespace c10d {
class Store;
class TCPStore;
}  // namespace c10d

namespace shardwright {

// The key, outside of any world's prefix, where a launcher finds the first rank that failed.
inline constexpr char kFirstFailedRankKey[] = "shardwright/first_failed_rank";

// First line of the exception being handled, without torch's and Gloo's source places.
std::string TextOfCurrentException();

// Thread-safe.
class C10dStore final : public KeyValueStore {
 public:
  explicit C10dStore(c10::intrusive_ptr<c10d::Store> store);
  ~C10dStore() override;

  absl::Status Set(absl::string_view key, absl::string_view value) override;
  absl::Status SetAll(const std::vector<std::string>& keys, absl::string_view value) override;
  absl::Status SetIfAbsent(absl::string_view key, absl::string_view value) override;
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) override;
  absl::StatusOr<bool> HasAll(const std::vector<std::string>& keys) override;
  absl::StatusOr<int64_t> Increment(absl::string_view key) override;
  absl::StatusOr<bool> WaitForAll(const std::vector<std::string>& keys, absl::Duration timeout) override;

  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  // The same server under "<prefix>/".
  C10dStore WithPrefix(absl::string_view prefix) const;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

struct TcpStoreOptions {
  std::string host;
  int32_t port = 0;
  bool serve = false;
  std::optional<int> listen_fd;  // the server's socket, where it is bound already
  absl::Duration timeout;
};
// A new connection to the store. kDeadlineExceeded if nobody answers in time, kUnavailable for other failures.
absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenTcpStore(const TcpStoreOptions& options);

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_C10D_STORE_H_
