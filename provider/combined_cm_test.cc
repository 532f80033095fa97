// SPDX-License-Identifier: Apache-2.0
// Which manager gets a call for an adapter, also after the adapters have changed.
#include "provider/combined_cm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace nd::provider {
namespace {

class NoSink final : public CmSink {
 public:
  void OnReserved(EndpointId, const Status&) override {}
  void OnRequest(const InboundRequest&) override {}
  void OnReply(CmId, bool, const ReadLimits&, const Bytes&) override {}
  void OnRejected(CmId, const Status&, const Bytes&) override {}
  void OnFailed(CmId, const Status&) override {}
  void OnEstablished(CmId) override {}
  void OnLost(CmId, const Status&, const Bytes&) override {}
  void OnAdaptersChanged() override { ++changes; }
  int changes = 0;
};

// Has adapters by name, and answers Resolve() with its own number.
class NamedManager final : public ConnectionManager {
 public:
  NamedManager(CmSink& sink, std::uint8_t number) : sink_(sink), number_(number) {}

  void Set(std::vector<std::string> names) {
    names_ = std::move(names);
    sink_.OnAdaptersChanged();
  }
  int described() const { return described_; }

  std::vector<AdapterDescription> adapters() const override {
    ++described_;
    std::vector<AdapterDescription> all(names_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i].info.name = names_[i];
    return all;
  }
  Result<Address> Resolve(const std::string&, const Address&) const override {
    return Address::V4({10, 0, 0, number_});
  }
  void Listen(EndpointId, const std::string&, const Address&) override {}
  void Unlisten(EndpointId) override {}
  void Connect(const ConnectParams&) override {}
  void Accept(CmId, const AcceptParams&) override {}
  void Reject(CmId, Detail, const Bytes&) override {}
  void Confirm(CmId) override {}
  void Abort(CmId) override {}
  Result<HandOff> TakeHandOff(CmId) override { return Status(StatusCode::kConnectionInvalid); }

 private:
  CmSink& sink_;
  const std::uint8_t number_;
  std::vector<std::string> names_;
  mutable int described_ = 0;
};

class CombinedCmTest : public ::testing::Test {
 protected:
  NamedManager* Add(std::uint8_t number) {
    auto made = std::make_unique<NamedManager>(combined_.NextSink(), number);
    NamedManager* const manager = made.get();
    combined_.Add(std::move(made));
    return manager;
  }
  // The number of the manager that has it; 0: none.
  int ManagerOf(const std::string& adapter) const {
    const Result<Address> answer = combined_.Resolve(adapter, {});
    for (const std::uint8_t number : {std::uint8_t{1}, std::uint8_t{2}}) {
      if (answer.ok() && *answer == Address::V4({10, 0, 0, number})) return number;
    }
    EXPECT_EQ(answer.code(), StatusCode::kDeviceRemoved);
    return 0;
  }

  NoSink sink_;
  CombinedCm combined_{sink_};
};

TEST_F(CombinedCmTest, ACallGoesToTheManagerThatHasTheAdapterNow) {
  NamedManager* const first = Add(1);
  NamedManager* const second = Add(2);
  first->Set({"a"});
  second->Set({"b", "c"});
  EXPECT_EQ(ManagerOf("a"), 1);
  EXPECT_EQ(ManagerOf("c"), 2);
  EXPECT_EQ(ManagerOf("d"), 0);
  second->Set({"b", "d"});
  EXPECT_EQ(ManagerOf("c"), 0) << "it was removed";
  EXPECT_EQ(ManagerOf("d"), 2) << "it is new";
  first->Set({"b"});
  EXPECT_EQ(ManagerOf("b"), 1) << "the adapters of earlier managers come first";
  EXPECT_EQ(sink_.changes, 4);
}

TEST_F(CombinedCmTest, ACallDoesNotDescribeTheAdaptersAgain) {
  NamedManager* const manager = Add(1);
  manager->Set({"a"});
  EXPECT_EQ(ManagerOf("a"), 1);
  const int before = manager->described();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ManagerOf("a"), 1);
  EXPECT_EQ(manager->described(), before);
}

}  // namespace
}  // namespace nd::provider
