#include "shardwright/core/comm/sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace shardwright {
namespace {

std::set<int> OpenDescriptors() {
  std::set<int> descriptors;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), &closedir);
  if (folder == nullptr) return descriptors;
  while (const dirent* entry = readdir(folder.get())) {
    int fd;
    if (absl::SimpleAtoi(entry->d_name, &fd) && fd != dirfd(folder.get())) descriptors.insert(fd);
  }
  return descriptors;
}

// 0 if the address is not of the internet.
int32_t PortOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

struct Ports {
  int32_t local = 0;
  int32_t peer = 0;
};

// Of a TCP connection; nullopt for everything else.
std::optional<Ports> PortsOfConnection(int fd) {
  int type = 0;
  socklen_t type_length = sizeof(type);
  sockaddr_storage local = {}, peer = {};
  socklen_t local_length = sizeof(local), peer_length = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_length) != 0 || type != SOCK_STREAM) return std::nullopt;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_length) != 0) return std::nullopt;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0 || PortOf(peer) == 0) return std::nullopt;
  return Ports{PortOf(local), PortOf(peer)};
}

std::string NumericAddress(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  return getnameinfo(address, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0 ? host : "";
}

}  // namespace

ConnectionBreaker::~ConnectionBreaker() {
  for (int fd : sockets_) close(fd);
}

void ConnectionBreaker::Note() {
  before_ = OpenDescriptors();
}

void ConnectionBreaker::Capture(const std::function<bool(int32_t local_port, int32_t peer_port)>& wanted) {
  for (int fd : OpenDescriptors()) {
    if (before_.count(fd) != 0) continue;
    const std::optional<Ports> ports = PortsOfConnection(fd);
    if (!ports || !wanted(ports->local, ports->peer)) continue;
    const int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (duplicate >= 0) sockets_.push_back(duplicate);
  }
  before_.clear();
}

void ConnectionBreaker::CaptureAllBut(int32_t port) {
  Capture([&](int32_t local_port, int32_t peer_port) { return local_port != port && peer_port != port; });
}

void ConnectionBreaker::CaptureTo(int32_t port) {
  Capture([&](int32_t, int32_t peer_port) { return peer_port == port; });
}

void ConnectionBreaker::Break() const {
  for (int fd : sockets_) shutdown(fd, SHUT_RDWR);
}

// The resolver's state is each thread's own, and a changed one is not reloaded from /etc/resolv.conf.
NoNameServers::NoNameServers() {
  if (!(_res.options & RES_INIT)) res_init();
  servers_ = std::exchange(_res.nscount, 0);
}

NoNameServers::~NoNameServers() {
  _res.nscount = servers_;
}

bool NeedsNoNameServer(const std::string& host) {
  in6_addr address;  // large enough for both kinds
  if (IsLoopback(host)) return true;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || absl::StartsWith(host, "127.") || host == "::1";
}

absl::StatusOr<std::string> LocalAddressTowards(const std::string& host, int32_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat("looking up ", host, ": ", gai_strerror(error)));
  }
  const absl::Cleanup free_found = [&] { freeaddrinfo(found); };
  for (const addrinfo* candidate = found; candidate != nullptr; candidate = candidate->ai_next) {
    const int fd = socket(candidate->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    const absl::Cleanup close_fd = [&] { close(fd); };
    sockaddr_storage local = {};
    socklen_t length = sizeof(local);
    // Connecting a datagram socket sends nothing; it asks the kernel for the route.
    if (connect(fd, candidate->ai_addr, candidate->ai_addrlen) != 0) continue;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) != 0) continue;
    const std::string address = NumericAddress(reinterpret_cast<sockaddr*>(&local), length);
    if (!address.empty()) return address;
  }
  return absl::UnavailableError(absl::StrCat("there is no route to ", host));
}

absl::StatusOr<std::string> FirstExternalAddress() {
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return absl::NotFoundError("cannot list this host's network interfaces");
  const absl::Cleanup free_interfaces = [&] { freeifaddrs(interfaces); };
  for (const ifaddrs* entry = interfaces; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) || !(entry->ifa_flags & IFF_UP)) continue;
    const std::string address = NumericAddress(entry->ifa_addr, sizeof(sockaddr_in));
    if (!address.empty()) return address;
  }
  return absl::NotFoundError("this host has no network interface but loopback");
}

absl::StatusOr<Listener> ListenOnLoopback() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(fd, SOMAXCONN) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    return Listener{fd, ntohs(address.sin_port)};
  }
  const int error = errno;
  if (fd >= 0) close(fd);
  return absl::UnavailableError(absl::StrCat("listening on a port of 127.0.0.1: ", strerror(error)));
}

}  // namespace shardwright
