// SPDX-License-Identifier: Apache-2.0
// ListHistory and the audit of changes. A thread that no other thread waits for reads the file of the
// history.
#include <chrono>
#include <utility>

#include "daemon/admin/admin_service.h"
#include "daemon/ops/logging.h"
#include "daemon/shell/history_messages.h"

namespace nd::service {

grpc::ServerUnaryReactor* AdminService::ListHistory(Context* context, const pb::HistoryRequest* request,
                                                    pb::HistoryList* reply) {
  Unary* reactor = context->DefaultReactor();
  if (options_.history == nullptr) {
    reactor->Finish({grpc::StatusCode::FAILED_PRECONDITION,
                     "this broker keeps no history; set enabled = true in [history] and restart it"});
    return reactor;
  }
  Result<state::HistoryFilter> filter = ToFilter(*request);
  if (!filter.ok()) {
    reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT, ops::Printable(filter.status().message())});
    return reactor;
  }
  options_.history_reader->Post([this, reactor, reply, filter = std::move(filter.value())] {
    const Result<state::HistoryPage> page = options_.history->List(filter);
    if (!page.ok()) {
      reactor->Finish({grpc::StatusCode::UNAVAILABLE, page.status().message()});
      return;
    }
    for (const state::HistoryRow& row : page->rows) ToProto(row, reply->add_items());
    reply->set_truncated(page->truncated);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

Status AdminService::ReserveAudit() {
  return options_.history == nullptr ? Status::Ok() : options_.history->ReserveAudit();
}

std::function<void(const Status&)> AdminService::Auditor(Context* context, std::string type,
                                                         const std::string& object) {
  const std::optional<Peer> peer = PeerOfCall(context->peer());
  return [this, peer, type = std::move(type), object = ops::Printable(object, 128)](const Status& outcome) {
    std::string what = peer ? "uid " + std::to_string(peer->uid) + " (pid " + std::to_string(peer->pid) + ")"
                            : std::string("somebody");
    what += outcome.ok() ? ": done" : ": " + outcome.ToString();
    const auto now = std::chrono::system_clock::now();
    // Reload runs on the worker, but the hub belongs to the loop.
    loop_.Post([this, type, object, what, now] { hub_.Publish(now, type, object, what); });
    if (options_.history == nullptr) return;
    state::AuditRow row;
    row.at = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
    if (peer) {
      row.uid = peer->uid;
      row.pid = peer->pid;
    }
    row.type = type;
    row.object = object;
    row.outcome = Name(outcome.code());
    row.message = outcome.message();
    options_.history->AddAudit(std::move(row));
  };
}

std::function<Status()> AdminService::Audited(Context* context, std::string type, const std::string& object,
                                              std::function<Status()> change) {
  return [this, audit = Auditor(context, std::move(type), object), change = std::move(change)] {
    if (Status unkept = ReserveAudit(); !unkept.ok()) return unkept;
    Status outcome = change();
    audit(outcome);
    return outcome;
  };
}

}  // namespace nd::service
