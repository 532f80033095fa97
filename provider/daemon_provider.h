// SPDX-License-Identifier: Apache-2.0
// One provider in the daemon: the part of the configuration that belongs to it, and the connection manager
// that is made from it. provider/README.md says how to add one.
//
// Read() and Apply() are called while the configuration is read, by one thread. Afterwards the object is not
// changed, and any thread may call the const functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/event_loop.h"
#include "base/os/kept_sockets.h"
#include "nd/status.h"
#include "provider/cm.h"

namespace nd::provider {

// One table of the configuration file. A function leaves `out` unchanged when the key is absent or has a
// wrong value, and records the error with its position. It returns true when the key is present and valid.
// Keys that nobody reads are errors.
class OptionTable {
 public:
  virtual bool Bool(std::string_view key, bool* out) = 0;
  template <typename T>
  bool Number(std::string_view key, std::int64_t min, std::int64_t max, T* out) {
    std::int64_t value = static_cast<std::int64_t>(*out);
    if (!Whole(key, min, max, &value)) return false;
    *out = static_cast<T>(value);
    return true;
  }
  virtual bool String(std::string_view key, std::string* out) = 0;
  // "250ms", "5s", "2min", "1h".
  virtual bool Time(std::string_view key, Duration min, Duration max, Duration* out) = 0;
  // Calls `each` for each text of a list; a text that it returns is the error of that entry.
  virtual bool Texts(std::string_view key, const std::function<std::string(const std::string&)>& each) = 0;
  // Networks such as "192.0.2.0/24", "10.0.0.1" and "*", which means both families.
  virtual bool Networks(std::string_view key,
                        const std::function<void(const Address& network, std::uint8_t bits)>& each) = 0;
  // Records that the value of `key`, which is present, is wrong.
  virtual void Refuse(std::string_view key, std::string_view error) = 0;
  // For an entry of a list: its name, which is in the names of its settings. Entries of a list have different
  // names. Call it before any other function.
  virtual void EntryName(std::string* out) = 0;

 protected:
  ~OptionTable() = default;
  virtual bool Whole(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t* out) = 0;
};

class DaemonProvider {
 public:
  virtual ~DaemonProvider() = default;

  // The tables of this provider alone: "verbs" means [verbs].
  virtual std::vector<std::string_view> tables() const { return {}; }
  // The lists of this provider alone: "adapter" means [[adapter]].
  virtual std::vector<std::string_view> lists() const { return {}; }
  // Reads the keys of this provider. Called once for each of tables(), once for each entry of lists() (for an
  // empty list once, with an empty table), and once for "limits" and "timeouts", which all providers and the
  // daemon share.
  virtual void Read(std::string_view table, OptionTable& options) = 0;

  // Options of the command line that change settings.
  struct Flag {
    std::string name;  // "adapter-address" means --adapter-address.
    std::string help;
    bool many = false;  // May be given several times.
  };
  struct Change {
    std::string setting, value;  // For display: "adapter.soft0.addresses".
  };
  virtual std::vector<Flag> flags() const { return {}; }
  // Applies a flag of flags() after all of Read(). INVALID_PARAMETER: a value is wrong.
  virtual Result<Change> Apply(std::string_view flag, const std::vector<std::string>& values) {
    static_cast<void>(values);
    return Status(StatusCode::kInvalidParameter, "--" + std::string(flag) + " is unknown");
  }

  // Descriptors that peers without a complete handshake may hold at once.
  virtual std::uint64_t handshake_descriptors() const { return 0; }

  // Called before Make() when listening sockets of the previous process may be there and stay for the next
  // one. `kept` outlives the connection manager.
  virtual void KeepListeners(os::KeptSockets* kept) { static_cast<void>(kept); }
  // Opens the configured adapters. Null when this provider is switched off or not in this build. The statuses
  // of MakeConnectionManager. `loop` and `sink` outlive the manager.
  virtual Result<std::unique_ptr<ConnectionManager>> Make(EventLoop& loop, CmSink& sink) const = 0;
};

// Every provider once. Copies share the providers.
using DaemonProviders = std::vector<std::shared_ptr<DaemonProvider>>;

}  // namespace nd::provider
