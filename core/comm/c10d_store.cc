#include "shardwright/core/comm/c10d_store.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "shardwright/core/base/catch_exceptions.h"
#include "shardwright/core/comm/sockets.h"

namespace shardwright {
namespace {

std::vector<uint8_t> Bytes(absl::string_view text) {
  return {text.begin(), text.end()};
}

// Runs fn; an exception is a store that cannot be reached.
template <typename Fn>
auto CallStore(Fn&& fn) {
  return CatchExceptions(std::forward<Fn>(fn), [] { return absl::UnavailableError(TextOfCurrentException()); });
}

// c10d logs every retry and every lost connection, with stack traces; what matters of that comes as a Status. Users who
// want the log say so.
void SilenceLog() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
}

std::string Clean(absl::string_view text) {
  text = text.substr(0, text.find('\n'));
  // "[/some/where/pair.cc:561] "
  if (absl::StartsWith(text, "[/") && text.find("] ") != absl::string_view::npos) {
    text.remove_prefix(text.find("] ") + 2);
  }
  return std::string(text);
}

}  // namespace

std::string TextOfCurrentException() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return Clean(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Clean(error.what());
  } catch (...) {
    return "unknown exception";
  }
}

C10dStore::C10dStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
C10dStore::~C10dStore() = default;

C10dStore C10dStore::WithPrefix(absl::string_view prefix) const {
  return C10dStore(c10::make_intrusive<c10d::PrefixStore>(std::string(prefix), store_));
}

absl::Status C10dStore::Set(absl::string_view key, absl::string_view value) {
  return CallStore([&] { store_->set(std::string(key), Bytes(value)); });
}

absl::Status C10dStore::SetAll(const std::vector<std::string>& keys, absl::string_view value) {
  return CallStore([&] { store_->multiSet(keys, std::vector<std::vector<uint8_t>>(keys.size(), Bytes(value))); });
}

absl::Status C10dStore::SetIfAbsent(absl::string_view key, absl::string_view value) {
  return CallStore([&] { store_->compareSet(std::string(key), std::vector<uint8_t>(), Bytes(value)); });
}

absl::StatusOr<std::optional<std::string>> C10dStore::Get(absl::string_view key) {
  return CallStore([&]() -> std::optional<std::string> {
    const std::string name(key);
    if (!store_->check({name})) return std::nullopt;  // get would wait for it
    const std::vector<uint8_t> value = store_->get(name);
    return std::string(value.begin(), value.end());
  });
}

absl::StatusOr<bool> C10dStore::HasAll(const std::vector<std::string>& keys) {
  return CallStore([&] { return store_->check(keys); });
}

absl::StatusOr<int64_t> C10dStore::Increment(absl::string_view key) {
  return CallStore([&] { return store_->add(std::string(key), 1); });
}

absl::StatusOr<bool> C10dStore::WaitForAll(const std::vector<std::string>& keys, absl::Duration timeout) {
  return CallStore([&] {
    try {
      store_->wait(keys, std::max(absl::ToChronoMilliseconds(timeout), std::chrono::milliseconds(1)));
      return true;
    } catch (const c10::DistNetworkError&) {
      throw;
    } catch (const c10::DistStoreError&) {
      return false;  // time is up
    }
  });
}

absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenTcpStore(const TcpStoreOptions& options) {
  SilenceLog();
  const absl::Time start = absl::Now();
  c10d::TCPStoreOptions tcp;
  tcp.port = static_cast<uint16_t>(options.port);
  tcp.isServer = options.serve;
  tcp.waitWorkers = false;
  tcp.timeout = absl::ToChronoMilliseconds(options.timeout);
  tcp.masterListenFd = options.listen_fd;
  auto store = CallStore(
      [&]() -> c10::intrusive_ptr<c10d::Store> { return c10::make_intrusive<c10d::TCPStore>(options.host, tcp); });
  if (store.ok() || absl::Now() - start < options.timeout) return store;
  return absl::DeadlineExceededError(absl::StrCat("nobody answered within ", absl::FormatDuration(options.timeout)));
}

}  // namespace shardwright
