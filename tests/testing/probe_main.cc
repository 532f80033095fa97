// SPDX-License-Identifier: Apache-2.0
// The helper process that uses gRPC on behalf of a test: the admin service, and sessions at message level,
// for clients that break rules which the library keeps. Messages are in the text format of protobuf.
#include <google/protobuf/text_format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/locate.h"
#include "ndbroker/v1/admin.grpc.pb.h"
#include "ndbroker/v1/session.grpc.pb.h"
#include "tests/testing/channel.h"
#include "tests/testing/message.h"
#include "tests/testing/probe.h"
#include "tests/testing/probe_dial.h"
#include "tests/testing/process.h"

#undef GetMessage  // A macro of the Windows headers, and a function of protobuf.

namespace nd::testing {
namespace {

namespace pb = google::protobuf;
namespace v1 = ndbroker::v1;

void Flatten(const pb::Message& message, const std::string& prefix, std::vector<std::string>* out);

std::string Scalar(const pb::Message& m, const pb::FieldDescriptor* f, int index) {
  std::string text;
  if (f->type() == pb::FieldDescriptor::TYPE_BYTES || f->type() == pb::FieldDescriptor::TYPE_STRING) {
    return index < 0 ? m.GetReflection()->GetString(m, f) : m.GetReflection()->GetRepeatedString(m, f, index);
  }
  pb::TextFormat::PrintFieldValueToString(m, f, index, &text);
  return text;
}

void Flatten(const pb::Message& message, const std::string& prefix, std::vector<std::string>* out) {
  const pb::Reflection* reflection = message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    const std::string path = prefix + field->name();
    const bool nested = field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string here = path;
      if (field->is_map()) {
        const pb::Message& entry = reflection->GetRepeatedMessage(message, field, i);
        here += "." + Scalar(entry, entry.GetDescriptor()->field(0), -1);
        out->push_back(here + "=" + Scalar(entry, entry.GetDescriptor()->field(1), -1));
        continue;
      }
      if (field->is_repeated()) here += "." + std::to_string(i);
      if (nested) {
        Flatten(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                     : reflection->GetMessage(message, field),
                here + ".", out);
      } else {
        out->push_back(here + "=" + Scalar(message, field, field->is_repeated() ? i : -1));
      }
    }
    if (field->is_repeated()) out->push_back(path + ".count=" + std::to_string(count));
  }
}

class AdminClient {
 public:
  explicit AdminClient(const std::string& directory)
      : stub_(v1::Admin::NewStub(Dial(directory + "/" + kAdminSocketName))) {}

  std::string Call(const std::string& method, const std::string& text) {
    if (method == "GetStatus") return Run(&v1::Admin::Stub::GetStatus, text);
    if (method == "ListAdapters") return Run(&v1::Admin::Stub::ListAdapters, text);
    if (method == "ListListeners") return Run(&v1::Admin::Stub::ListListeners, text);
    if (method == "ListConnections") return Run(&v1::Admin::Stub::ListConnections, text);
    if (method == "ListEndpoints") return Run(&v1::Admin::Stub::ListEndpoints, text);
    if (method == "ListPorts") return Run(&v1::Admin::Stub::ListPorts, text);
    if (method == "ListSessions") return Run(&v1::Admin::Stub::ListSessions, text);
    if (method == "ListHistory") return Run(&v1::Admin::Stub::ListHistory, text);
    if (method == "SetAdapter") return Run(&v1::Admin::Stub::SetAdapter, text);
    if (method == "KillConnection") return Run(&v1::Admin::Stub::KillConnection, text);
    if (method == "KillSession") return Run(&v1::Admin::Stub::KillSession, text);
    if (method == "PauseListener") return Run(&v1::Admin::Stub::PauseListener, text);
    if (method == "Reload") return Run(&v1::Admin::Stub::Reload, text);
    if (method == "SkipTime") return Run(&v1::Admin::Stub::SkipTime, text);
    return Writer().Put(std::string("no such method " + method)).Put(std::vector<std::string>()).bytes();
  }

 private:
  template <typename Request, typename Response>
  std::string Run(grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const std::string& text) {
    Request request;
    std::vector<std::string> lines;
    if (!pb::TextFormat::ParseFromString(text, &request)) {
      return Writer().Put("request is not text format: " + text).Put(lines).bytes();
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(10)));
    Response response;
    const grpc::Status status = ((*stub_).*method)(&context, request, &response);
    if (status.ok()) Flatten(response, "", &lines);
    return Writer()
        .Put(status.ok() ? std::string()
                         : "gRPC " + std::to_string(status.error_code()) + ": " + status.error_message())
        .Put(lines)
        .bytes();
  }
  std::unique_ptr<v1::Admin::Stub> stub_;
};

// One session at message level.
class RawSession {
 public:
  // Returns "" or the reason of a failure. With `say_hello` false it opens only the lane and the stream.
  std::string Open(const std::string& directory, bool lane, bool say_hello) {
    const std::string token = lane ? ConnectLane(directory, &lane_) : std::string(16, '\0');
    if (lane && token.empty()) return "the lane gave no token";
    token_ = token;
    stub_ = v1::Broker::NewStub(Dial(ClientSocketPath(directory, kBrokerSocketName)));
    stream_ = stub_->Session(&context_);
    reader_ = std::thread([this] { ReadLoop(); });
    if (!say_hello) return {};
    v1::ClientMessage hello;
    hello.set_op_id(1);
    hello.mutable_hello()->set_token(token);
    hello.mutable_hello()->set_min_version(1);
    hello.mutable_hello()->set_max_version(1);
    hello.mutable_hello()->set_application("probe");
    if (!stream_->Write(hello)) return "the stream broke";
    return {};
  }
  bool Send(const std::string& text) {
    v1::ClientMessage message;
    if (!pb::TextFormat::ParseFromString(text, &message)) return false;
    if (message.has_hello() && message.hello().token() == "LANE") message.mutable_hello()->set_token(token_);
    return stream_->Write(message);
  }
  // Returns the next message as flat lines, "ended: ..." when the stream has ended, and no lines when no
  // message came in time.
  std::vector<std::string> Next(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, patience, [&] { return !messages_.empty() || ended_; });
    std::vector<std::string> lines;
    if (messages_.empty()) {
      if (ended_) lines.push_back("ended=" + end_);
      return lines;
    }
    Flatten(messages_.front(), "", &lines);
    messages_.pop_front();
    return lines;
  }
  void HoldReading(bool hold) {
    const std::lock_guard lock(mutex_);
    hold_ = hold;
    arrived_.notify_all();
  }
  ~RawSession() {
    HoldReading(false);
    context_.TryCancel();
    if (reader_.joinable()) reader_.join();
  }

 private:
  void ReadLoop() {
    v1::ServerMessage message;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        arrived_.wait(lock, [&] { return !hold_; });
      }
      if (!stream_->Read(&message)) break;
      const std::lock_guard lock(mutex_);
      messages_.push_back(message);
      arrived_.notify_all();
    }
    const grpc::Status status = stream_->Finish();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    end_ = std::to_string(status.error_code()) + " " + status.error_message();
    arrived_.notify_all();
  }

  UniqueFd lane_;
  std::string token_;
  grpc::ClientContext context_;
  std::unique_ptr<v1::Broker::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientMessage, v1::ServerMessage>> stream_;
  std::thread reader_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<v1::ServerMessage> messages_;
  bool hold_ = false, ended_ = false;
  std::string end_;
};

// Sends `payload`, valid or not, as a message of method `method`. Returns the gRPC status as text.
std::string Garbage(const std::string& socket, const std::string& method, const std::string& payload) {
  grpc::GenericStub stub(Dial(socket));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + Scaled(std::chrono::seconds(5)));
  grpc::CompletionQueue queue;
  const auto wait = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  if (wait()) {
    const grpc::Slice slice(payload);
    const grpc::ByteBuffer buffer(&slice, 1);
    call->Write(buffer, nullptr);
    if (wait()) {
      call->WritesDone(nullptr);
      wait();
    }
  }
  grpc::ByteBuffer answer;
  do {
    call->Read(&answer, nullptr);
  } while (wait());
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  queue.Shutdown();
  return std::to_string(status.error_code()) + " " + status.error_message();
}

}  // namespace
}  // namespace nd::testing

int main() {
  using namespace nd::testing;
  std::map<std::string, std::unique_ptr<AdminClient>> admins;
  std::map<std::uint32_t, std::unique_ptr<RawSession>> sessions;
  std::uint32_t last = 0;
  Serve([&](const std::string& message) -> std::string {
    Reader in(message);
    switch (in.Get<ProbeVerb>()) {
      case ProbeVerb::kAdmin: {
        const std::string directory = in.Text();
        auto& admin = admins[directory];
        if (admin == nullptr) admin = std::make_unique<AdminClient>(directory);
        const std::string method = in.Text();
        return admin->Call(method, in.Text());
      }
      case ProbeVerb::kForget:
        admins.erase(in.Text());
        return "x";
      case ProbeVerb::kOpen: {
        const std::string directory = in.Text();
        const bool lane = in.Bool();
        auto session = std::make_unique<RawSession>();
        const std::string error = session->Open(directory, lane, in.Bool());
        sessions[++last] = std::move(session);
        return Writer().Put(last).Put(error).bytes();
      }
      case ProbeVerb::kSend: {
        RawSession& session = *sessions.at(in.U32());
        return Writer().Put(session.Send(in.Text())).bytes();
      }
      case ProbeVerb::kNext: {
        RawSession& session = *sessions.at(in.U32());
        return Writer().Put(session.Next(Scaled(std::chrono::milliseconds(in.U32())))).bytes();
      }
      case ProbeVerb::kHold: {
        RawSession& session = *sessions.at(in.U32());
        session.HoldReading(in.Bool());
        return "x";
      }
      case ProbeVerb::kClose:
        sessions.erase(in.U32());
        return "x";
      case ProbeVerb::kGarbage: {
        const std::string socket = in.Text();
        const std::string method = in.Text();
        return Writer().Put(Garbage(socket, method, in.Text())).bytes();
      }
    }
    return "x";
  });
  std::_Exit(0);
}
