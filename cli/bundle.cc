// SPDX-License-Identifier: Apache-2.0
// Each part is a function that returns text or the reason of its failure. A failed part does not affect the
// others.
#include "cli/bundle.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>

#include "base/os/error_text.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "base/unique_fd.h"
#include "cli/checkup.h"
#include "cli/doctor.h"
#include "cli/events.h"
#include "cli/history.h"
#include "cli/noun.h"
#include "cli/quantity.h"
#include "cli/version.h"

namespace nd::cli {
namespace {

using Part = std::function<Failure(Context&, std::string*)>;

std::string ListJson(const std::string& kind, Value::Array rows) {
  Value document = Envelope(kind);
  document.Set("items", std::move(rows));
  return document.ToJson(2) + "\n";
}

Failure Configuration(Context& context, std::string* text) {
  v1::ConfigReply reply;
  if (Failure failure = context.admin().GetConfig(v1::GetConfigRequest(), &reply)) {
    return failure;
  }
  Value::Array rows;
  for (const auto& setting : reply.settings()) {
    Value row = Value::MakeObject();
    row.Set("name", setting.name())
        .Set("value", Redacted(setting.name(), setting.value()))
        .Set("origin", setting.origin());
    rows.push_back(std::move(row));
  }
  *text = ListJson("ConfigSettingList", std::move(rows));
  return std::nullopt;
}

Failure Log(Context& context, std::string* text) {
  v1::LogReply reply;
  if (Failure failure = context.admin().GetLog(v1::LogRequest(), &reply)) return failure;
  for (const std::string& line : reply.lines()) *text += line + "\n";
  return std::nullopt;
}

Failure Events(Context& context, std::string* text) {
  v1::WatchRequest request;
  request.set_since("1970-01-01T00:00:00Z");
  request.set_past_only(true);
  return context.admin().Watch(request, context.globals.timeout, [&](const v1::WatchEvent& event) {
    *text += EventValue(event).ToJson(0) + "\n";
    return true;
  });
}

Failure History(Context& context, std::string* text) {
  v1::HistoryRequest request;
  v1::HistoryList list;
  if (Failure failure = context.admin().ListHistory(request, &list)) return failure;
  Value::Array rows;
  for (const auto& item : list.items()) rows.push_back(HistoryValue(item));
  *text = ListJson("HistoryList", std::move(rows));
  return std::nullopt;
}

// Messages are kept in the text format of protobuf.
template <typename Request, typename Reply>
Part Raw(Failure (AdminClient::*method)(const Request&, Reply*), Request request = {}) {
  return [method, request](Context& context, std::string* text) -> Failure {
    Reply reply;
    if (Failure failure = (context.admin().*method)(request, &reply)) return failure;
    *text = reply.DebugString();
    return std::nullopt;
  };
}

Part ListOf(const Noun& noun) {
  return [&noun](Context& context, std::string* text) -> Failure {
    Value::Array rows;
    if (Failure failure = noun.fetch(context, {}, &rows)) return failure;
    *text = ListJson(noun.shape.kind + "List", std::move(rows));
    return std::nullopt;
  };
}

Failure Doctor(Context& context, std::string* text) {
  *text = ListJson("CheckList", Examine(context).rows);
  return std::nullopt;
}

Failure Kernel(Context&, std::string* text) {
  *text = DescribeHost();
  return std::nullopt;
}

// Asks the HTTP responder of the broker; returns the whole response with its header.
Failure Metrics(Context& context, std::string* text) {
  const std::string path = context.Directory() + "/metrics.sock";
  const Duration limit = std::chrono::seconds(std::max(1L, static_cast<long>(context.globals.timeout)));
  static constexpr char kRequest[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  const UniqueFd fd = os::ConnectLocal(path, os::SocketKind::kStream, limit);
  bool ok = fd && os::Send(fd.get(), kRequest, sizeof(kRequest) - 1) == sizeof(kRequest) - 1;
  char buffer[16384];
  for (std::ptrdiff_t got = 1; ok && got > 0;) {
    os::Watched wait[] = {{fd.get()}};
    os::Wait(wait, limit);
    got = os::Receive(fd.get(), buffer, sizeof(buffer));  // After the limit: EAGAIN.
    ok = got >= 0;
    if (got > 0) text->append(buffer, static_cast<std::size_t>(got));
  }
  if (ok) return std::nullopt;
  return Error{Exit::kFailed, "no metrics from " + path + ": " + os::ErrorText(errno), {}, {}};
}

std::vector<std::pair<std::string, Part>> Parts(const Context& context) {
  std::vector<std::pair<std::string, Part>> parts = {{"status.txt", Raw(&AdminClient::GetStatus)},
                                                     {"doctor.json", Doctor},
                                                     {"config.json", Configuration},
                                                     {"policy.txt", Raw(&AdminClient::GetPolicy)}};
  for (const auto& noun : context.nouns) parts.emplace_back("list/" + noun->name + ".json", ListOf(*noun));
  for (const char* by : {"application", "peer", "adapter"}) {
    v1::StatsRequest request;
    request.set_by(by);
    parts.emplace_back(std::string("stats/") + by + ".txt", Raw(&AdminClient::GetStats, request));
  }
  parts.insert(parts.end(), {{"history.json", History},
                             {"events.jsonl", Events},
                             {"log.txt", Log},
                             {"metrics.txt", Metrics},
                             {"kernel.txt", Kernel}});
  return parts;
}

}  // namespace

std::string Redacted(const std::string& name, const std::string& value) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* word : {"secret", "password", "passphrase", "token", "private", "key"}) {
    if (lower.find(word) != std::string::npos && !value.empty()) return "<redacted>";
  }
  return value;
}

std::vector<ArchiveFile> CollectBundle(Context& context, const std::string& folder) {
  Value files = Value::MakeArray();
  std::vector<ArchiveFile> archive = {{folder + "/manifest.json", {}}};
  for (const auto& [name, part] : Parts(context)) {
    context.Progress("collecting " + name);
    std::string text;
    const Failure failure = part(context, &text);
    Value entry = Value::MakeObject();
    entry.Set("file", name).Set("bytes", text.size());
    if (failure) entry.Set("problem", failure->message);
    files.array().push_back(std::move(entry));
    if (!failure || !text.empty()) archive.push_back({folder + "/" + name, std::move(text)});
  }
  context.Progress("");
  Value manifest = Envelope("DebugBundle");
  manifest.Set("time", TimeAgo(0))
      .Set("ndctl", kVersion)
      .Set("directory", context.Directory())
      .Set("files", std::move(files));
  archive[0].content = manifest.ToJson(2) + "\n";
  return archive;
}

}  // namespace nd::cli
