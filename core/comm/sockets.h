// The connections of a library that does not let go of them, and the address at which other hosts reach this one.
// Private to core/comm.
#ifndef SHARDWRIGHT_CORE_COMM_SOCKETS_H_
#define SHARDWRIGHT_CORE_COMM_SOCKETS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shardwright {

// Ends connections that Gloo made: a thread that waits for a peer on one of them wakes with an error at once, here and
// at the other end. Gloo itself has no way to that.
//
//   ConnectionBreaker breaker;  breaker.Note();  <Gloo connects>  breaker.CaptureAllBut(store_port);  ...
//   breaker.Break();
//
// It holds duplicates of the file descriptors, so that it never shuts down something else that got the same number.
// Thread- compatible; Break may be called from any thread once Capture... has returned.
class ConnectionBreaker {
 public:
  ConnectionBreaker() = default;
  ConnectionBreaker(const ConnectionBreaker&) = delete;
  ConnectionBreaker& operator=(const ConnectionBreaker&) = delete;
  ~ConnectionBreaker();

  // Remembers the descriptors that are open now.
  void Note();
  // Takes hold of the TCP connections made since Note, but for those from or to `port`.
  void CaptureAllBut(int32_t port);
  // Takes hold of the TCP connections made since Note to a peer's `port`.
  void CaptureTo(int32_t port);
  void Break() const;
  size_t size() const { return sockets_.size(); }

 private:
  void Capture(const std::function<bool(int32_t local_port, int32_t peer_port)>& wanted);

  std::set<int> before_;
  std::vector<int> sockets_;
};

// In this scope this thread asks no name server. c10d looks up the name of every address that it connects to, for its
// log alone; where no server answers, each look-up takes 5 s and more. Addresses and names in /etc/hosts are still
// understood.
class NoNameServers {
 public:
  NoNameServers();
  ~NoNameServers();
  NoNameServers(const NoNameServers&) = delete;
  NoNameServers& operator=(const NoNameServers&) = delete;

 private:
  int servers_;
};

// True for "10.0.0.7", "fe80::1" and "localhost", false for other names.
bool NeedsNoNameServer(const std::string& host);

// "localhost", "127.0.0.1", "::1" and the like.
bool IsLoopback(absl::string_view host);

// This host's numeric address on the route to `host`. kUnavailable if there is none.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& host, int32_t port);

// This host's first numeric IPv4 address that others might reach. kNotFound if there is none.
absl::StatusOr<std::string> FirstExternalAddress();

// A TCP socket that listens on a free port of 127.0.0.1. The caller owns the descriptor.
struct Listener {
  int fd = -1;
  int32_t port = 0;
};
absl::StatusOr<Listener> ListenOnLoopback();

}  // namespace shardwright

#endif  // SHARDWRIGHT_CORE_COMM_SOCKETS_H_
