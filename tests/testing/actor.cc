// SPDX-License-Identifier: Apache-2.0
// The process of an actor, and the objects that it makes. actor_objects.cc has the calls on them. Only the
// scratch memory of the actor is cached here.
#include "tests/testing/actor.h"

#include <utility>

#include "tests/testing/actor_messages.h"

namespace nd::testing {

Actor::Actor(ActorOptions options) : options_(std::move(options)) {}

void Actor::Start() {
  SpawnOptions spawn;
  spawn.arguments = {BinaryDirectory() + "/nd_actor"};
  spawn.uid = options_.uid;
  spawn.network_namespace = options_.network_namespace;
  channel_.Start(spawn);
  alive_ = true;
  adapter_ = 0;
  scratch_ = Memory();
}

Status Actor::Open() {
  if (!alive_) Start();
  Object made = OpenAdapter(options_.adapter);
  adapter_ = made.id();
  return made.status();
}

Object Actor::OpenAdapter(const std::string& name) {
  return Made<Object>(Writer()
                          .Put(Verb::kOpen)
                          .Put(options_.broker)
                          .Put(name)
                          .Put(Address())
                          .Put(options_.application)
                          .Put(options_.progress_thread)
                          .Put(options_.reconnect));
}

Status Actor::CloseAdapter(std::uint32_t adapter) {
  const std::string answer = Call(Say(Verb::kCloseAdapter, adapter != 0 ? adapter : adapter_));
  return answer.empty() ? Gone() : Reader(answer).Status();
}

void Actor::Kill() {
  channel_.Stop();
  alive_ = false;
}

std::string Actor::Call(const Writer& message) {
  if (!alive_) return {};
  std::string answer = channel_.Call(message.bytes());
  if (answer.empty()) alive_ = false;
  return answer;
}

AdapterInfo Actor::Info(std::uint32_t adapter) {
  AdapterInfo info;
  const std::string answer = Call(Say(Verb::kInfo, adapter != 0 ? adapter : adapter_));
  if (answer.empty()) return info;
  Reader in(answer);
  info.name = in.Text();
  info.provider = in.Text();
  info.adapter_id = in.U64();
  info.vendor_id = in.U32();
  info.device_id = in.U32();
  info.technology = in.Get<RdmaTechnology>();
  info.flags = in.U32();
  info.max_registration_size = in.U64();
  info.max_window_size = in.U64();
  for (std::uint32_t* field :
       {&info.max_initiator_sge, &info.max_receive_sge, &info.max_read_sge, &info.max_transfer_length,
        &info.max_inline_data_size, &info.max_inbound_read_limit, &info.max_outbound_read_limit,
        &info.max_receive_queue_depth, &info.max_initiator_queue_depth, &info.max_shared_receive_queue_depth,
        &info.max_completion_queue_depth, &info.inline_request_threshold, &info.large_request_threshold,
        &info.max_caller_data, &info.max_callee_data}) {
    *field = in.U32();
  }
  info.addresses.resize(in.U32());
  for (Address& address : info.addresses) address = in.Address();
  return info;
}

Result<std::vector<Address>> Actor::QueryAddressList() {
  const std::string answer = Call(Writer().Put(Verb::kQueryAddressList).Put(options_.broker));
  if (answer.empty()) return Gone();
  Reader in(answer);
  Status status = in.Status();
  if (!status.ok()) return status;
  std::vector<Address> list(in.U32());
  for (Address& address : list) address = in.Address();
  return list;
}

Result<Address> Actor::ResolveAddress(const Address& remote) {
  const std::string answer = Call(Say(Verb::kResolveAddress, adapter_).Put(remote));
  if (answer.empty()) return Gone();
  Reader in(answer);
  Status status = in.Status();
  if (!status.ok()) return status;
  return in.Address();
}

Status Actor::CheckAddress(const Address& local) {
  const std::string answer = Call(Say(Verb::kCheckAddress, adapter_).Put(local));
  return answer.empty() ? Gone() : Reader(answer).Status();
}

bool Actor::Connected() {
  const std::string answer = Call(Say(Verb::kConnected, adapter_));
  return !answer.empty() && Reader(answer).Bool();
}

std::vector<std::uint8_t> Actor::SessionEvents() {
  return ReadList<std::uint8_t>(Call(Writer().Put(Verb::kSessionEvents)));
}

Endpoint Actor::CreateSharedEndpoint(const Address& local, std::uint32_t adapter) {
  return Made<Endpoint>(Say(Verb::kCreateSharedEndpoint, adapter != 0 ? adapter : adapter_).Put(local));
}
Listener Actor::NdkListen(const Address& local, std::uint32_t adapter) {
  return Made<Listener>(Say(Verb::kNdkListen, adapter != 0 ? adapter : adapter_).Put(local));
}
Cq Actor::CreateCq(std::uint32_t depth, std::uint32_t adapter) {
  return Made<Cq>(Say(Verb::kCreateCq, adapter != 0 ? adapter : adapter_).Put(depth));
}
Srq Actor::CreateSrq(std::uint32_t depth) {
  return Made<Srq>(Say(Verb::kCreateSrq, adapter_).Put(depth));
}

Qp Actor::CreateQp(const QpArguments& arguments, std::uint32_t adapter) {
  const Cq cq = arguments.cq ? arguments.cq : CreateCq(512, adapter);
  const Cq receive_cq = arguments.receive_cq ? arguments.receive_cq : cq;
  Qp qp = Made<Qp>(Say(Verb::kCreateQp, adapter != 0 ? adapter : adapter_)
                       .Put(receive_cq.id())
                       .Put(cq.id())
                       .Put(arguments.srq.id())
                       .Put(arguments.context)
                       .Put(arguments.receive_depth)
                       .Put(arguments.initiator_depth)
                       .Put(arguments.receive_sge)
                       .Put(arguments.initiator_sge)
                       .Put(arguments.inline_size));
  qp.cq = cq;
  qp.receive_cq = receive_cq;
  return qp;
}

Memory Actor::Allocate(std::uint64_t size, std::uint32_t access, bool buffer) {
  const std::string answer = Call(Say(Verb::kAllocate, adapter_).Put(size).Put(access).Put(buffer));
  if (answer.empty()) return Memory(this, Gone(), 0);
  Reader in(answer);
  Status status = in.Status();
  Memory memory(this, std::move(status), in.U32());
  memory.address = in.U64();
  memory.token = in.U32();
  return memory;
}

Status Actor::RegisterRaw(std::uint64_t address, std::uint64_t length, std::uint32_t access) {
  const std::string answer = Call(Say(Verb::kRegisterRaw, adapter_).Put(address).Put(length).Put(access));
  return answer.empty() ? Gone() : Reader(answer).Status();
}

Window Actor::CreateWindow() {
  return Made<Window>(Say(Verb::kCreateWindow, adapter_));
}

const Memory& Actor::Scratch() {
  if (!scratch_) {
    scratch_ = Allocate(4 << 20, kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink);
  }
  return scratch_;
}

std::vector<std::uint32_t> Actor::CompletionLog() {
  return ReadList<std::uint32_t>(Call(Writer().Put(Verb::kCompletionLog)));
}

Actor::ForkReport Actor::Fork() {
  ForkReport report;
  const std::string answer = Call(Say(Verb::kFork, adapter_).Put(options_.broker));
  if (answer.empty()) return report;
  Reader in(answer);
  const std::string child = in.Text();
  report.exit_status = in.Get<int>();
  if (child.empty()) {  // The child hung.
    report.own = report.inherited = Status(StatusCode::kIoTimeout, "the child hung");
    return report;
  }
  Reader from_child(child);
  report.inherited = from_child.Status();
  report.own = from_child.Status();
  return report;
}

std::string Actor::Program(const std::string& name, const std::string& arguments) {
  const std::string answer =
      Call(Writer().Put(Verb::kProgram).Put(name).Put(arguments + " adapter=" + options_.adapter));
  return answer.empty() ? "the actor is gone" : Reader(answer).Text();
}

std::uint32_t Actor::StartProgram(const std::string& name, const std::string& arguments) {
  const std::string answer =
      Call(Writer().Put(Verb::kProgramStart).Put(name).Put(arguments + " adapter=" + options_.adapter));
  return answer.empty() ? 0 : Reader(answer).U32();
}

std::string Actor::JoinProgram(std::uint32_t id, milliseconds patience) {
  const std::string answer =
      Call(Say(Verb::kProgramJoin, id).Put(static_cast<std::uint32_t>(patience.count())));
  if (answer.empty()) return "the actor is gone";
  Reader in(answer);
  (void)in.Bool();
  return in.Text();
}

std::vector<std::string> Actor::Reset() {
  scratch_ = Memory();
  if (!alive_) return {};
  const std::string answer = Call(Writer().Put(Verb::kReset));
  if (answer.empty()) return {"the actor died while it was reset"};
  Reader in(answer);
  std::vector<std::string> faults(in.U32());
  for (std::string& fault : faults) fault = in.Text();
  return faults;
}

}  // namespace nd::testing
