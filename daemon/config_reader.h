// SPDX-License-Identifier: Apache-2.0
// Reads one TOML table key by key. It records every error with its position, and every setting with its
// value, so that the display of the configuration is complete.
//
// Call a reader for each allowed key, then Done(): every other key is unknown, and the message suggests the
// nearest allowed one.
#pragma once

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "daemon/config.h"

namespace nd::config {

class Findings {
 public:
  explicit Findings(std::string file) : file_(std::move(file)) {}
  std::vector<Setting> settings;

  void Add(const toml::source_region& where, std::string_view what);
  bool empty() const { return count_ == 0; }
  const std::string& text() const { return text_; }

 private:
  static constexpr int kShown = 20;
  std::string file_, text_;
  int count_ = 0;
};

class TableReader {
 public:
  // `name` for messages: "[core]". The settings are named "core.max-backlog".
  TableReader(const toml::table& table, std::string name, Findings& findings);
  // Changes the prefix of setting names: "adapter.soft0". `only_given`: settings that the file does not have
  // are not recorded.
  void NameSettings(std::string prefix, bool only_given = false) {
    prefix_ = std::move(prefix);
    only_given_ = only_given;
  }

  // Each function leaves `out` unchanged when the key is absent or wrong. Returns true when it is present and
  // valid.
  bool Bool(std::string_view key, bool* out);
  bool Integer(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t* out);
  template <typename T>
  bool Number(std::string_view key, std::int64_t min, std::int64_t max, T* out) {
    std::int64_t value = 0;
    if (!Integer(key, min, max, &value)) {
      Record(key, std::to_string(*out));
      return false;
    }
    *out = static_cast<T>(value);
    Record(key, std::to_string(value));
    return true;
  }
  bool String(std::string_view key, std::string* out);
  // Reads "250ms", "5s", "2min", "1h".
  bool Time(std::string_view key, Duration min, Duration max, Duration* out);
  // Reads "0660".
  bool Mode(std::string_view key, std::uint32_t* out);
  // Calls `each` for each text of a list. Returns true for an empty list, too.
  bool Strings(std::string_view key, const std::function<void(const std::string&, const toml::node&)>& each);
  const toml::table* Table(std::string_view key);
  // Returns a list of tables ([[key]]).
  std::vector<const toml::table*> Tables(std::string_view key);
  // Returns any value; the caller records it.
  const toml::node* Any(std::string_view key);
  void Record(std::string_view key, std::string value);
  // Reads the name of an entry of [[list]]. It is no setting itself; the settings of the entry are named
  // "list.name.key".
  void EntryName(const std::string& list, bool only_given, std::string* out);

  void Wrong(const toml::node& where, std::string_view what) { findings_.Add(where.source(), what); }
  void Done();
  Findings& findings() { return findings_; }
  const std::string& name() const { return name_; }
  const toml::table& table() const { return table_; }

 private:
  std::string In(std::string_view key) const;
  const toml::table& table_;
  std::string name_;
  Findings& findings_;
  std::string prefix_;
  bool only_given_ = false;
  std::vector<std::string> known_;
};

}  // namespace nd::config
