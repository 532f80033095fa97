// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/services.h"

#include <string>
#include <utility>

#include "base/locate.h"
#include "daemon/server/late_services.h"
#include "daemon/server/records.h"

namespace nd::service {
namespace {

class AllServices final : public Services {
 public:
  AllServices(ServicesHost host, LateFactory make_late)
      : host_(std::move(host)), make_late_(std::move(make_late)), records_(host_) {}

  std::vector<os::InheritedSockets::Wanted> Sockets() const override;
  Status Listen() override;
  Status Serve() override;
  void Proven(std::uint64_t cookie) override {
    if (late_ != nullptr) late_->Proven(cookie);
  }
  void StopFirst() override {
    if (late_ != nullptr) late_->StopFirst();
  }
  void StopLast() override {
    if (late_ != nullptr) late_->StopLast();
  }
  void EndStreams() override {
    if (late_ != nullptr) late_->EndStreams();
  }

 private:
  std::string AdminPath(const char* name) const { return host_.options.directory + "/" + name; }

  const ServicesHost host_;
  const LateFactory make_late_;
  Records records_;
  LateServices::Sockets sockets_;  // From Listen() to Serve().
  std::unique_ptr<LateServices> late_;
};

std::vector<os::InheritedSockets::Wanted> AllServices::Sockets() const {
  std::vector<os::InheritedSockets::Wanted> wanted = {
      {ClientSocketPath(host_.options.directory, kBrokerSocketName), os::SocketKind::kStream}};
  for (const char* name : {kAdminSocketName, kMetricsSocketName}) {
    wanted.push_back({AdminPath(name), os::SocketKind::kStream});
  }
  return wanted;
}

Status AllServices::Listen() {
  const Config& config = host_.options.config;
  const BrokerSettings& broker = config.broker;
  Status status = host_.listen(AdminPath(kAdminSocketName), os::SocketKind::kStream, broker.admin_mode,
                               broker.admin_group, &sockets_.admin);
  if (status.ok() && config.metrics.enabled) {
    status = host_.listen(AdminPath(kMetricsSocketName), os::SocketKind::kStream, broker.admin_mode,
                          broker.admin_group, &sockets_.metrics);
  }
  if (status.ok() && broker.grpc) {
    status = host_.listen(ClientSocketPath(host_.options.directory, kBrokerSocketName),
                          os::SocketKind::kStream, broker.client_mode, broker.client_group, &sockets_.broker);
  }
  return status;
}

Status AllServices::Serve() {
  Result<std::unique_ptr<LateServices>> made = make_late_(host_, records_);
  if (!made.ok()) return made.status();
  host_.on_loop([&] { late_ = std::move(made.value()); });
  if (Status status = late_->Start(std::move(sockets_)); !status.ok()) return status;
  records_.AwaitOpen(std::chrono::seconds(1));
  return Status::Ok();
}

}  // namespace

ServicesFactory MakeServices(LateFactory late) {
  return [late = std::move(late)](ServicesHost host) {
    return std::make_unique<AllServices>(std::move(host), late);
  };
}

}  // namespace nd::service
