// SPDX-License-Identifier: Apache-2.0
// Writes every field of every event and action, so that any difference between two runs is visible.
#include "tests/sim/trace.h"

#include <charconv>
#include <cstdio>
#include <utility>

namespace nd::sim {
namespace {

// A trace numbers the kinds from 0 without kUnspecified, which no broker sends.
template <typename What>
std::uint32_t KindNumber(What what) {
  return static_cast<std::uint32_t>(what) - 1;
}

using namespace core;  // NOLINT: the names of some seventy kinds.

class Writer {
 public:
  explicit Writer(const char* kind) : text_(kind) { text_.reserve(160); }
  Writer& operator()(std::uint64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text_ += ' ';
    text_.append(digits, end);
    return *this;
  }
  Writer& operator()(std::uint32_t value) { return (*this)(std::uint64_t{value}); }
  Writer& operator()(bool value) { return Raw(value ? "+" : "-"); }
  Writer& operator()(Handle handle) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, handle.value, 16).ptr;
    text_ += " h";
    text_.append(digits, end);
    return *this;
  }
  Writer& operator()(SessionId id) { return Raw("s")(static_cast<std::uint64_t>(id)); }
  Writer& operator()(provider::CmId id) {
    const auto value = static_cast<std::uint64_t>(id);
    const bool inbound = (value & provider::kInboundBit) != 0;
    return Raw(inbound ? "in" : "out")(value & ~provider::kInboundBit);
  }
  Writer& operator()(provider::EndpointId id) { return Raw("ep")(static_cast<std::uint64_t>(id)); }
  Writer& operator()(const Address& address) {
    if (address == Address()) return Raw("*");
    return Raw(address.well_formed() ? address.ToString() : "malformed");
  }
  Writer& operator()(const ReadLimits& limits) {
    Raw(std::to_string(limits.inbound) + "/" + std::to_string(limits.outbound));
    return *this;
  }
  Writer& operator()(const provider::Bytes& bytes) {
    Hash hash;
    hash.Add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return Raw("[" + std::to_string(bytes.size()) + (bytes.empty() ? "]" : "]" + Hex(hash.value())));
  }
  Writer& operator()(const std::string& text) { return Raw(text.empty() ? "\"\"" : text); }
  Writer& operator()(const Status& status) { return Raw(Text(status)); }
  Writer& operator()(DisconnectReason reason) { return Raw(std::string(Name(reason))); }
  Writer& operator()(Detail detail) { return Raw(std::string(Name(detail))); }
  Writer& operator()(const provider::AdapterDescription& d) {
    (*this)(d.info.name)(d.reserve_ports)(d.client_disconnects);
    for (const Address& address : d.info.addresses) (*this)(address);
    return *this;
  }
  std::string Take() { return std::move(text_); }

 private:
  static std::string Hex(std::uint64_t value) {
    char digits[24];
    return {digits, std::to_chars(digits, digits + sizeof digits, value, 16).ptr};
  }
  Writer& Raw(std::string_view text) {
    text_ += ' ';
    text_ += text;
    return *this;
  }
  std::string text_;
};

struct OpFields {
  Writer& w;
  void operator()(const ListAdaptersOp&) {}
  void operator()(const OpenAdapterOp& o) { w(o.name)(o.local); }
  void operator()(const ResolveAddressOp& o) { w(o.adapter)(o.remote); }
  void operator()(const CheckAddressOp& o) { w(o.adapter)(o.local); }
  void operator()(const CreateQueuePairOp& o) {
    w(o.adapter)(o.receive_depth)(o.initiator_depth)(o.device_number);
  }
  void operator()(const CreateConnectorOp& o) { w(o.adapter); }
  void operator()(const CreateListenerOp& o) { w(o.adapter); }
  void operator()(const CreateSharedEndpointOp& o) { w(o.adapter)(o.local); }
  void operator()(const CloseOp& o) { w(o.handle)(o.ndk); }
  void operator()(const BindOp& o) { w(o.handle)(o.local); }
  void operator()(const ConnectOp& o) {
    w(o.connector)(o.queue_pair)(o.remote)(o.limits)(o.private_data)(o.private_data_length)(
        o.source.has_value())(o.source.value_or(Address()))(o.shared_endpoint);
  }
  void operator()(const CompleteConnectOp& o) { w(o.connector)(o.disconnect_event); }
  void operator()(const AcceptOp& o) {
    w(o.connector)(o.queue_pair)(o.limits)(o.private_data)(o.private_data_length)(o.disconnect_event);
  }
  void operator()(const RejectOp& o) { w(o.connector)(o.private_data)(o.private_data_length); }
  void operator()(const GetReadLimitsOp& o) { w(o.connector); }
  void operator()(const GetPrivateDataOp& o) { w(o.connector); }
  void operator()(const GetLocalAddressOp& o) { w(o.handle); }
  void operator()(const GetPeerAddressOp& o) { w(o.connector); }
  void operator()(const NotifyDisconnectOp& o) { w(o.connector); }
  void operator()(const DisconnectOp& o) { w(o.connector); }
  void operator()(const CancelOp& o) { w(o.handle); }
  void operator()(const ListenOp& o) {
    w(o.listener)(o.backlog)(o.local.has_value())(o.local.value_or(Address()))(o.connect_events);
  }
  void operator()(const ControlConnectEventsOp& o) { w(o.listener)(o.pause); }
  void operator()(const GetConnectionRequestOp& o) { w(o.listener)(o.connector); }
  void operator()(const TransportReportOp& o) { w(o.connector)(KindNumber(o.what))(o.reason)(o.status); }
  void operator()(const ReattachOp& o) {
    w(o.adapter)(o.queue_pair)(o.local)(o.remote)(o.limits)(o.passive)(o.proof)(o.receive_depth)(
        o.initiator_depth)(o.device_number);
  }
};

constexpr const char* kEvents[] = {
    "SessionOpened", "SessionClosed",  "ClientOp",        "CmReserved",  "CmRequested",   "CmReached",
    "CmReplied",     "CmRejected",     "CmFailed",        "CmPrepare",   "CmEstablished", "CmLost",
    "CmPeerClosed",  "CmDisconnected", "AdaptersChanged", "Tick",        "SetAdapter",    "KillConnection",
    "KillSession",   "PauseListener",  "SettingsChanged", "SetDraining", "ReservePort",   "ReleasePort",
    "Stopping",      "ReclaimSome"};
static_assert(std::size(kEvents) == std::variant_size_v<Event>);

struct EventFields {
  Writer& w;
  void operator()(const SessionOpened& e) { w(e.session)(e.identity.uid)(e.identity.pid); }
  void operator()(const SessionClosed& e) { w(e.session)(e.why); }
  void operator()(const ClientOp& e) {
    w(e.session)(e.op_id)(std::string(OperationName(e.op.index())));
    std::visit(OpFields{w}, e.op);
  }
  void operator()(const CmReserved& e) { w(e.endpoint)(e.status); }
  void operator()(const CmRequested& e) {
    const provider::InboundRequest& r = e.request;
    w(r.id)(r.adapter)(r.local)(r.remote)(r.limits_known)(r.peer_offer)(r.private_data);
  }
  void operator()(const CmReached& e) { w(e.id); }
  void operator()(const CmReplied& e) { w(e.id)(e.limits_known)(e.peer)(e.private_data); }
  void operator()(const CmRejected& e) { w(e.id)(e.status)(e.private_data); }
  void operator()(const CmFailed& e) { w(e.id)(e.status); }
  void operator()(const CmPrepare& e) { w(e.id)(e.attributes); }
  void operator()(const CmEstablished& e) { w(e.id); }
  void operator()(const CmLost& e) { w(e.id)(e.status)(e.private_data); }
  void operator()(const CmPeerClosed& e) { w(e.id)(e.reason); }
  void operator()(const CmDisconnected& e) { w(e.id)(e.status); }
  void operator()(const AdaptersChanged& e) {
    for (const auto& adapter : e.adapters) w(adapter);
  }
  void operator()(const Tick&) {}
  void operator()(const SetAdapter& e) { w(e.name)(e.enabled); }
  void operator()(const KillConnection& e) { w(e.connector); }
  void operator()(const KillSession& e) { w(e.session); }
  void operator()(const PauseListener& e) { w(e.listener)(e.pause); }
  void operator()(const SettingsChanged& e) {
    w(e.settings.max_backlog)(e.settings.max_handshakes_in_flight)(
        static_cast<std::uint64_t>(e.policy.rules().size()));
  }
  void operator()(const SetDraining& e) { w(e.drain); }
  void operator()(const ReservePort& e) { w(e.local)(e.uid.has_value())(e.uid.value_or(0))(e.request); }
  void operator()(const ReleasePort& e) { w(e.local); }
  void operator()(const Stopping&) {}
  void operator()(const ReclaimSome& e) { w(e.slice); }
};

constexpr const char* kActions[] = {"Complete",
                                    "HandOffTo",
                                    "SendConnectEvent",
                                    "SendDisconnectEvent",
                                    "SendTransportCommand",
                                    "SendAdapterEvent",
                                    "EndSession",
                                    "CmReserve",
                                    "CmRelease",
                                    "CmListen",
                                    "CmUnlisten",
                                    "CmConnect",
                                    "CmAccept",
                                    "CmReject",
                                    "CmConfirm",
                                    "CmPrepared",
                                    "CmAbort",
                                    "CmDisconnect",
                                    "Notice",
                                    "ConnectionRecord",
                                    "LeaseTaken",
                                    "LeaseFreed",
                                    "ReserveDone"};
static_assert(std::size(kActions) == std::variant_size_v<Action>);

struct ActionFields {
  Writer& w;
  void operator()(const Complete& a) {
    w(a.session)(a.op_id)(a.status)(a.reply.handle)(a.reply.address)(a.reply.limits)(a.reply.private_data)(
        a.reply.hand_off)(a.reply.proof)(a.reply.counter_slot)(a.reply.queue_pair);
    for (const AdapterInfo& info : a.reply.adapters) {
      w(info.name);
      for (const Address& address : info.addresses) w(address);
    }
  }
  void operator()(const HandOffTo& a) {
    w(a.session)(a.id)(a.connector)(a.hand_off)(a.limits)(a.flush_on_peer_disconnect);
  }
  void operator()(const SendConnectEvent& a) { w(a.session)(a.listener)(a.connector); }
  void operator()(const SendDisconnectEvent& a) { w(a.session)(a.connector)(a.reason); }
  void operator()(const SendTransportCommand& a) {
    w(a.session)(a.connector)(KindNumber(a.what))(a.reason)(a.timeout_ms)(a.attributes);
  }
  void operator()(const SendAdapterEvent& a) { w(a.session)(a.adapter)(KindNumber(a.what)); }
  void operator()(const EndSession& a) { w(a.session)(a.why); }
  void operator()(const CmReserve& a) { w(a.endpoint)(a.adapter)(a.local); }
  void operator()(const CmRelease& a) { w(a.endpoint); }
  void operator()(const CmListen& a) { w(a.endpoint)(a.adapter)(a.local); }
  void operator()(const CmUnlisten& a) { w(a.endpoint); }
  void operator()(const CmConnect& a) {
    const provider::ConnectParams& p = a.params;
    w(p.id)(p.endpoint)(p.adapter)(p.local)(p.remote)(p.offer)(p.private_data)(p.device_qp)(p.owner_uid)(
        p.owner_pid);
  }
  void operator()(const CmAccept& a) {
    w(a.id)(a.params.limits)(a.params.private_data)(a.params.device_qp)(a.params.owner_uid)(
        a.params.owner_pid);
  }
  void operator()(const CmReject& a) { w(a.id)(a.detail)(a.private_data); }
  void operator()(const CmConfirm& a) { w(a.id); }
  void operator()(const CmPrepared& a) { w(a.id)(a.status); }
  void operator()(const CmAbort& a) { w(a.id); }
  void operator()(const CmDisconnect& a) { w(a.id); }
  void operator()(const Notice& a) { w(std::string(a.type))(a.object); }
  void operator()(const ConnectionRecord& a) {
    w(std::string(OutcomeName(a.outcome)))(a.id)(a.session)(a.adapter)(a.local)(a.peer)(a.passive)(a.limits)(
        a.why)(a.reason);
  }
  void operator()(const LeaseTaken& a) {
    w(a.lease.adapter)(a.lease.local)(static_cast<std::uint32_t>(a.lease.kind))(a.lease.holder.uid)(
        a.lease.holder.pid)(a.lease.holder.born);
  }
  void operator()(const LeaseFreed& a) { w(a.adapter)(a.local); }
  void operator()(const ReserveDone& a) { w(a.request)(a.status); }
};

}  // namespace

std::string Text(const Status& status) {
  std::string text(Name(status.code()));
  if (status.detail() != Detail::kNone) text += "(" + std::string(Name(status.detail())) + ")";
  return text;
}

std::string Text(const core::Event& event) {
  Writer w(kEvents[event.index()]);
  std::visit(EventFields{w}, event);
  return w.Take();
}

std::string Text(const core::Action& action) {
  Writer w(kActions[action.index()]);
  std::visit(ActionFields{w}, action);
  return w.Take();
}

const char* KindOf(const core::Event& event) {
  return kEvents[event.index()];
}
const char* KindOf(const core::Action& action) {
  return kActions[action.index()];
}
std::span<const char* const> EventKinds() {
  return kEvents;
}
std::span<const char* const> ActionKinds() {
  return kActions;
}
const char* KindOf(const session::Operation& op) {
  return OperationName(op.index());
}

void Trace::Line(std::string text) {
  if (print_) std::printf("%s\n", text.c_str());
  hash_.Add(text);
  hash_.Add("\n");
  tail_.push_back(std::move(text));
  if (tail_.size() > kTail) tail_.pop_front();
}

std::string Trace::Tail() const {
  std::string text;
  for (const std::string& line : tail_) text += line + "\n";
  return text;
}

}  // namespace nd::sim
