// SPDX-License-Identifier: Apache-2.0
// The text of a registration, and the names that Kubernetes allows in it.
#include <algorithm>
#include <array>
#include <utility>

#include "daemon/pods/pod_registry.h"

namespace nd::pods {
namespace {

constexpr std::string_view kFirstLine = "ndbroker-pod 1";

bool IsDnsName(std::string_view text, std::size_t longest, bool dots) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= longest && plain(text.front()) && plain(text.back()) &&
         std::ranges::all_of(text, [&](char c) { return plain(c) || c == '-' || (dots && c == '.'); });
}

Status Invalid(const std::string& text) {
  return {StatusCode::kInvalidParameter, text};
}

}  // namespace

bool IsPodUid(std::string_view text) {
  if (text.size() != 32 && text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = text.size() == 36 && (i == 8 || i == 13 || i == 18 || i == 23);
    const bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (dash ? text[i] != '-' : !hex) return false;
  }
  return true;
}

bool IsVolumeId(std::string_view text) {
  return !text.empty() && text.size() <= 128 && text.front() != '.' && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Status Check(const Pod& pod) {
  if (!IsPodUid(pod.uid)) return Invalid("the uid of the pod is not a uid: '" + pod.uid + "'");
  if (!IsDnsName(pod.namespace_name, 63, false)) {
    return Invalid("the namespace of the pod is not a DNS label: '" + pod.namespace_name + "'");
  }
  if (!IsDnsName(pod.name, 253, true))
    return Invalid("the name of the pod is not a DNS name: '" + pod.name + "'");
  if (!pod.service_account.empty() && !IsDnsName(pod.service_account, 253, true)) {
    return Invalid("the service account of the pod is not a DNS name: '" + pod.service_account + "'");
  }
  return {};
}

std::string Encode(const Pod& pod) {
  return std::string(kFirstLine) + "\nuid " + pod.uid + "\nnamespace " + pod.namespace_name + "\nname " +
         pod.name + "\nservice-account " + pod.service_account + "\n";
}

Result<Pod> Parse(std::string_view text) {
  const auto line = [&text](std::string_view key) -> std::optional<std::string_view> {
    const std::size_t end = text.find('\n');
    if (end == text.npos || !text.starts_with(key)) return std::nullopt;
    const std::string_view value = text.substr(key.size(), end - key.size());
    text.remove_prefix(end + 1);
    return value;
  };
  Pod pod;
  const auto first = line(kFirstLine);
  if (!first || !first->empty()) return Invalid("it does not begin with '" + std::string(kFirstLine) + "'");
  const std::array<std::pair<std::string_view, std::string*>, 4> fields = {
      {{"uid ", &pod.uid},
       {"namespace ", &pod.namespace_name},
       {"name ", &pod.name},
       {"service-account ", &pod.service_account}}};
  for (const auto& [key, field] : fields) {
    const auto value = line(key);
    if (!value) return Invalid("the line '" + std::string(key.substr(0, key.size() - 1)) + "' is missing");
    *field = *value;
  }
  if (!text.empty()) return Invalid("something follows its last line");
  if (Status status = Check(pod); !status.ok()) return status;
  return pod;
}

}  // namespace nd::pods
