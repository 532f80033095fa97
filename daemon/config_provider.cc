// SPDX-License-Identifier: Apache-2.0
#include "daemon/config_provider.h"

#include <set>
#include <string>
#include <vector>

#include "daemon/config_rules.h"

namespace nd::config {
namespace {

// `names`: the names of the entries so far, for an entry of a list.
class Options final : public provider::OptionTable {
 public:
  Options(TableReader& reader, std::string_view table, std::set<std::string>* names)
      : reader_(reader), table_(table), names_(names) {}

  bool Bool(std::string_view key, bool* out) override { return reader_.Bool(key, out); }
  bool String(std::string_view key, std::string* out) override { return reader_.String(key, out); }
  bool Time(std::string_view key, Duration min, Duration max, Duration* out) override {
    return reader_.Time(key, min, max, out);
  }
  bool Texts(std::string_view key, const std::function<std::string(const std::string&)>& each) override {
    return reader_.Strings(key, [&](const std::string& text, const toml::node& node) {
      if (const std::string error = each(text); !error.empty()) reader_.Wrong(node, error);
    });
  }
  bool Networks(std::string_view key,
                const std::function<void(const Address& network, std::uint8_t bits)>& each) override {
    return reader_.Strings(key, [&](const std::string& text, const toml::node& node) {
      const Result<std::vector<core::Prefix>> parsed = ParsePrefixes(text);
      if (!parsed.ok()) return reader_.Wrong(node, parsed.status().message());
      for (const core::Prefix& prefix : parsed.value()) {
        if (prefix.first_port != 0 || prefix.last_port != 65535) {
          return reader_.Wrong(
              node, "\"" + text + "\" has a port; a network of \"" + std::string(key) + "\" has none");
        }
        each(prefix.network, prefix.bits);
      }
    });
  }
  void Refuse(std::string_view key, std::string_view error) override {
    reader_.Wrong(*reader_.table().get(key), error);
  }
  void EntryName(std::string* out) override {
    reader_.EntryName(table_, false, out);
    if (!names_->insert(*out).second) {
      reader_.Wrong(reader_.table(), "a second [[" + table_ + "]] is called \"" + *out + "\"");
    }
  }

 private:
  bool Whole(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t* out) override {
    return reader_.Number(key, min, max, out);
  }

  TableReader& reader_;
  const std::string table_;
  std::set<std::string>* const names_;
};

}  // namespace

void ReadShared(TableReader& reader, std::string_view table, const provider::DaemonProviders& providers) {
  Options options(reader, table, nullptr);
  for (const std::shared_ptr<provider::DaemonProvider>& provider : providers) provider->Read(table, options);
}

void ReadTable(TableReader& reader, std::string_view table, provider::DaemonProvider& provider) {
  Options options(reader, table, nullptr);
  provider.Read(table, options);
  reader.Done();
}

void ReadList(TableReader& root, std::string_view list, provider::DaemonProvider& provider) {
  std::set<std::string> names;
  const toml::table none;
  std::vector<const toml::table*> entries = root.Tables(list);
  if (entries.empty()) entries.push_back(&none);
  for (const toml::table* entry : entries) {
    TableReader reader(*entry, "[[" + std::string(list) + "]]", root.findings());
    Options options(reader, list, &names);
    provider.Read(list, options);
    reader.Done();
  }
}

}  // namespace nd::config
