// SPDX-License-Identifier: Apache-2.0
// Plays systemd's fd store: receives the descriptors, and gives them to the next "process".
#include "base/os/kept_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/os/given_socket.h"

namespace nd::os {
namespace {

class KeptSocketsTest : public ::testing::Test {
 protected:
  KeptSocketsTest() {
    const std::string path = "@nd-kept-sockets-test-" + std::to_string(::getpid());
    manager_socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, path.data() + 1, path.size() - 1);
    EXPECT_EQ(::bind(manager_socket_.get(), reinterpret_cast<sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size())),
              0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    Result<ServiceManager> manager = ServiceManager::FromEnvironment();
    EXPECT_TRUE(manager.ok()) << manager.status().ToString();
    manager_ = std::move(manager).value();
  }

  static UniqueFd Listening(int family, Address* address) {
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::listen(fd.get(), 8), 0);  // The kernel chooses a port.
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &length), 0);
    *address = Address::FromSockaddr(reinterpret_cast<const sockaddr*>(&storage), length);
    return fd;
  }

  // The next message to the service manager; `fd` receives its descriptor.
  std::string Received(UniqueFd* fd = nullptr) {
    std::array<char, 512> text;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(manager_socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (n < 0) return "nothing";
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && fd != nullptr) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header), sizeof number);
      fd->reset(number);
    }
    return {text.data(), static_cast<std::size_t>(n)};
  }
  static std::string NameIn(const std::string& message) {
    return message.substr(message.find("FDNAME=") + std::strlen("FDNAME="));
  }
  // What the next process inherits after this one has kept the socket.
  std::vector<InheritedDescriptor> InheritedAfterKeeping(const NetworkAddress& at, int fd) {
    std::vector<InheritedDescriptor> none, inherited(1);
    StoredSockets first(manager_, &none);
    EXPECT_TRUE(first.Keep(at, fd));
    inherited[0].name = NameIn(Received(&inherited[0].fd));
    return inherited;
  }

  UniqueFd manager_socket_;
  ServiceManager manager_;
};

TEST_F(KeptSocketsTest, TheNextProcessTakesASocketByItsAddress) {
  for (const int family : {AF_INET, AF_INET6}) {
    Address address;
    UniqueFd fd = Listening(family, &address);
    std::vector<InheritedDescriptor> none;
    StoredSockets first(manager_, &none);
    EXPECT_TRUE(first.keeps());
    EXPECT_FALSE(first.Take({address}));
    EXPECT_TRUE(first.Keep({address}, fd.get()));
    std::vector<InheritedDescriptor> inherited(1);
    const std::string message = Received(&inherited[0].fd);
    EXPECT_TRUE(message.starts_with("FDSTORE=1\nFDNAME=wire ")) << message;
    inherited[0].name = NameIn(message);
    EXPECT_EQ(inherited[0].name.find(':'), std::string::npos) << "systemd separates names by colons";
    fd.reset();  // The first process ends.

    StoredSockets next(manager_, &inherited);
    EXPECT_TRUE(inherited.empty());
    const UniqueFd taken = next.Take({address});
    ASSERT_TRUE(taken);
    EXPECT_NE(::fcntl(taken.get(), F_GETFL) & O_NONBLOCK, 0);
    EXPECT_FALSE(next.Take({address})) << "once";
    next.DropUnclaimed();
    EXPECT_EQ(Received(), "nothing") << "a taken socket stays kept";
    next.Drop({address});
    EXPECT_EQ(Received(), "FDSTOREREMOVE=1\nFDNAME=" + NameIn(message));
  }
}

TEST_F(KeptSocketsTest, ASocketThatNobodyTakesIsDropped) {
  Address address;
  const UniqueFd fd = Listening(AF_INET, &address);
  std::vector<InheritedDescriptor> inherited = InheritedAfterKeeping({address}, fd.get());
  StoredSockets next(manager_, &inherited);
  next.DropUnclaimed();
  EXPECT_TRUE(Received().starts_with("FDSTOREREMOVE=1\n"));
  EXPECT_FALSE(next.Take({address}));
  int listens = 1;
  socklen_t length = sizeof listens;
  EXPECT_EQ(::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &length), 0);
  EXPECT_EQ(listens, 0) << "peers are refused and do not wait for ever, even if the store still has it";
}

TEST_F(KeptSocketsTest, SocketOfAnotherNetworkIsTakenForThatNetworkOnly) {
  NetworkAddress at;
  const UniqueFd fd = Listening(AF_INET, &at.address);
  at.network = NetworkOf(fd.get());
  std::vector<InheritedDescriptor> inherited = InheritedAfterKeeping(at, fd.get());
  StoredSockets next(manager_, &inherited);
  EXPECT_FALSE(next.Take({at.address}));
  EXPECT_FALSE(next.Take({at.address, at.network + 1}));
  EXPECT_TRUE(next.Take(at));
}

TEST_F(KeptSocketsTest, SocketIsDroppedWhoseNameTellsAnotherNetwork) {
  NetworkAddress at;
  const UniqueFd fd = Listening(AF_INET, &at.address);
  at.network = NetworkOf(fd.get()) + 1;
  std::vector<InheritedDescriptor> inherited = InheritedAfterKeeping(at, fd.get());
  StoredSockets next(manager_, &inherited);
  EXPECT_TRUE(Received().starts_with("FDSTOREREMOVE=1\n"));
  EXPECT_FALSE(next.Take(at));
}

TEST_F(KeptSocketsTest, OtherDescriptorsAreNotItsOwn) {
  Address address;
  std::vector<InheritedDescriptor> inherited;
  inherited.push_back({"client", Listening(AF_INET, &address)});
  inherited.push_back({"wire 1.2.3.4-5", UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))});
  StoredSockets sockets(manager_, &inherited);
  ASSERT_EQ(inherited.size(), 1u);
  EXPECT_EQ(inherited[0].name, "client");
  EXPECT_EQ(Received(), "FDSTOREREMOVE=1\nFDNAME=wire 1.2.3.4-5") << "it does not listen";
  EXPECT_FALSE(sockets.Take({address}));
}

TEST_F(KeptSocketsTest, WithoutAServiceManagerNothingIsKept) {
  const ServiceManager nobody;
  std::vector<InheritedDescriptor> none;
  StoredSockets sockets(nobody, &none);
  Address address;
  const UniqueFd fd = Listening(AF_INET, &address);
  EXPECT_FALSE(sockets.keeps());
  EXPECT_FALSE(sockets.Keep({address}, fd.get()));
  sockets.Drop({address});
}

}  // namespace
}  // namespace nd::os
