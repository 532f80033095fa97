// SPDX-License-Identifier: Apache-2.0
// The messages between the two halves of a provider whose client half makes the connections.
#include "client-lib/core/broker_session.h"
#include "client-lib/core/session_link.h"
#include "provider/halves_record.h"
#include "provider/qp.h"

namespace nd::client {

// The device may outlive the session.
class BrokerSession::Daemon final : public provider::DaemonHalf {
 public:
  Daemon(std::weak_ptr<BrokerSession> session, provider::TransportKind transport)
      : session_(std::move(session)), transport_(transport) {}

  Status Send(std::span<const std::byte> message) override {
    const std::shared_ptr<BrokerSession> session = session_.lock();
    std::shared_ptr<Link> link;
    if (session) {
      std::lock_guard lock(session->mutex_);
      if (session->link_ && !session->link_->over) link = session->link_;
    }
    if (!link || !link->lane.takes_halves_messages()) return Unreachable();
    return link->lane.SendHalves(transport_, message).ok() ? Status() : Unreachable();
  }

 private:
  const std::weak_ptr<BrokerSession> session_;
  const provider::TransportKind transport_;
};

Status BrokerSession::Introduce(const std::shared_ptr<provider::Device>& device) {
  if (device->transport() == provider::TransportKind::kNone) return {};
  bool takes;
  {
    std::lock_guard lock(mutex_);
    takes = link_ && link_->lane.takes_halves_messages();
  }
  if (!takes) {
    return {StatusCode::kNotSupported,
            "connections of this adapter are made by this process, and the session cannot carry the messages "
            "for that; use a session by the lane (no NDBROKER_SESSION) and a broker of this version"};
  }
  {
    std::lock_guard lock(device_mutex_);
    device_ = device;
  }
  AddEventListener();  // For the life of the session: messages come at any time.
  return device->Meet(std::make_shared<Daemon>(weak_from_this(), device->transport()));
}

std::shared_ptr<provider::Device> BrokerSession::IntroducedDevice() {
  std::lock_guard lock(device_mutex_);
  return device_;
}

void BrokerSession::OnHalvesMessage(const provider::HalvesMessage& message) {
  const std::shared_ptr<provider::Device> device = IntroducedDevice();
  if (device && device->transport() == message.transport) device->OnDaemonMessage(message.bytes);
}

}  // namespace nd::client
