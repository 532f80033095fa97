// SPDX-License-Identifier: Apache-2.0
// The pods of this host that hold the broker's volume: written by the CSI driver, read by the broker.
//
// The kubelet tells the driver the name of a pod when it mounts the volume. The driver writes one file for
// each volume into a directory that only administrators can write. The broker finds the pod of a client by
// the uid of the pod, which the kernel reports as a part of the client's control group. So neither the pod
// nor its client can choose the name. Any thread; every function reads or writes files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nd/status.h"

namespace nd::pods {

struct Pod {
  std::string uid;              // "0a1b2c3d-...", or 32 digits for a static pod.
  std::string namespace_name;   // A DNS label.
  std::string name;             // A DNS name.
  std::string service_account;  // A DNS name; may be empty.
  bool operator==(const Pod&) const = default;
};

// True for 36 characters with dashes or 32 hexadecimal digits, in lower case.
bool IsPodUid(std::string_view text);
// Returns true for a valid name of a CSI volume: letters, digits, '.', '_' and '-'.
bool IsVolumeId(std::string_view text);

// INVALID_PARAMETER names the field that Kubernetes would not allow.
Status Check(const Pod& pod);

// Writes and reads the text of a registration. INVALID_PARAMETER: the text is not a registration.
std::string Encode(const Pod& pod);
Result<Pod> Parse(std::string_view text);

class Registry {
 public:
  explicit Registry(std::string directory) : directory_(std::move(directory)) {}

  // Registers a volume of a pod; makes the directory if it is missing. SUCCESS when it was registered before
  // for the same pod; ADDRESS_ALREADY_EXISTS when for another one. UNSUCCESSFUL: a system call failed.
  Status Add(const std::string& volume, const Pod& pod) const;
  // SUCCESS also when it was not registered.
  Status Remove(const std::string& volume) const;
  // Returns the pod of this volume, or of this uid. No value: not registered. ACCESS_DENIED: a user other
  // than root and the user of this process may write in the directory, so that its contents prove nothing.
  // INVALID_PARAMETER: the file is damaged.
  Result<std::optional<Pod>> OfVolume(const std::string& volume) const;
  Result<std::optional<Pod>> OfUid(const std::string& uid) const;

 private:
  std::string directory_;
};

}  // namespace nd::pods
