#include "shardwright/core/comm/sockets.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <resolv.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/status/status.h"
#include "shardwright/tests/testing/status_matchers.h"

namespace shardwright {
namespace {

using ::shardwright::testing::IsOk;
using ::shardwright::testing::IsOkAndHolds;
using ::shardwright::testing::StatusIs;
using ::testing::Not;

// Both ends of a connection over loopback.
struct Connection {
  explicit Connection(const Listener& listener) {
    client = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(listener.port));
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    server = accept(listener.fd, nullptr, nullptr);
    EXPECT_GE(server, 0);
  }
  ~Connection() {
    close(client);
    close(server);
  }
  // True if the other end has ended; must be known to have.
  bool Ended() const {
    char byte;
    return recv(client, &byte, 1, 0) <= 0;
  }
  bool Works() const {
    char byte = 'x';
    return send(server, &byte, 1, MSG_NOSIGNAL) == 1 && recv(client, &byte, 1, 0) == 1;
  }
  int client, server;
};

class ConnectionBreakerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SW_ASSERT_OK_AND_ASSIGN(store_, ListenOnLoopback());
    SW_ASSERT_OK_AND_ASSIGN(peer_, ListenOnLoopback());
  }
  void TearDown() override {
    close(store_.fd);
    close(peer_.fd);
  }
  Listener store_, peer_;
};

TEST_F(ConnectionBreakerTest, BreaksWhatWasMadeMeanwhileButForTheStore) {
  const Connection before(peer_);
  ConnectionBreaker breaker;
  breaker.Note();
  const Connection made(peer_), store(store_);
  breaker.CaptureAllBut(store_.port);
  EXPECT_EQ(breaker.size(), 2u);  // both ends of `made` are ours here
  breaker.Break();
  EXPECT_TRUE(made.Ended());
  EXPECT_TRUE(before.Works());
  EXPECT_TRUE(store.Works());
}

TEST_F(ConnectionBreakerTest, BreaksTheConnectionToAPort) {
  ConnectionBreaker breaker;
  breaker.Note();
  const Connection other(peer_), store(store_);
  breaker.CaptureTo(store_.port);
  EXPECT_EQ(breaker.size(), 1u);
  breaker.Break();
  EXPECT_TRUE(store.Ended());
  EXPECT_TRUE(other.Works());
}

TEST_F(ConnectionBreakerTest, WakesAThreadThatWaits) {
  ConnectionBreaker breaker;
  breaker.Note();
  const Connection made(peer_);
  breaker.CaptureAllBut(store_.port);
  std::thread waiter([&] { EXPECT_TRUE(made.Ended()); });
  breaker.Break();
  waiter.join();
}

TEST_F(ConnectionBreakerTest, ANumberThatWasUsedAgainIsLeftAlone) {
  ConnectionBreaker breaker;
  breaker.Note();
  int number;
  {
    const Connection made(peer_);
    number = made.client;
    breaker.CaptureAllBut(store_.port);
  }
  const Connection again(peer_);
  ASSERT_EQ(again.client, number);
  breaker.Break();
  EXPECT_TRUE(again.Works());
}

TEST_F(ConnectionBreakerTest, FilesPipesAndListenersAreNoConnections) {
  ConnectionBreaker breaker;
  breaker.Note();
  int ends[2], local[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, local), 0);
  SW_ASSERT_OK_AND_ASSIGN(const Listener listener, ListenOnLoopback());
  breaker.CaptureAllBut(store_.port);
  EXPECT_EQ(breaker.size(), 0u);
  for (int fd : {ends[0], ends[1], local[0], local[1], listener.fd}) close(fd);
}

TEST(ListenOnLoopbackTest, OnLoopbackAlone) {
  SW_ASSERT_OK_AND_ASSIGN(const Listener listener, ListenOnLoopback());
  sockaddr_in address = {};
  socklen_t length = sizeof(address);
  ASSERT_EQ(getsockname(listener.fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  EXPECT_EQ(address.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_EQ(ntohs(address.sin_port), listener.port);
  close(listener.fd);
}

TEST(LocalAddressTowardsTest, LoopbackAndNowhere) {
  EXPECT_THAT(LocalAddressTowards("127.0.0.1", 1), IsOkAndHolds(std::string("127.0.0.1")));
  EXPECT_THAT(LocalAddressTowards("name.invalid", 1), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(FirstExternalAddressTest, IsNeverLoopback) {
  const absl::StatusOr<std::string> address = FirstExternalAddress();
  if (!address.ok()) GTEST_SKIP() << address.status();
  EXPECT_FALSE(IsLoopback(*address));
  EXPECT_TRUE(NeedsNoNameServer(*address));
}

TEST(IsLoopbackTest, KnowsTheUsualNames) {
  for (const char* host : {"localhost", "127.0.0.1", "127.0.1.1", "::1"}) EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host : {"", "10.0.0.7", "gpu1", "::2", "128.0.0.1"}) EXPECT_FALSE(IsLoopback(host)) << host;
}

TEST(NeedsNoNameServerTest, AddressesAndNames) {
  for (const char* host : {"10.0.0.7", "::1", "fe80::1", "localhost"}) EXPECT_TRUE(NeedsNoNameServer(host)) << host;
  for (const char* host : {"", "1.2.3", "gpu1", "256.0.0.1"}) EXPECT_FALSE(NeedsNoNameServer(host)) << host;
}

TEST(NoNameServersTest, GivesBackWhatItTook) {
  res_init();
  const int servers = _res.nscount;
  {
    const NoNameServers none;
    EXPECT_EQ(_res.nscount, 0);
  }
  EXPECT_EQ(_res.nscount, servers);
}

}  // namespace
}  // namespace shardwright
