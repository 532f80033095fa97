// SPDX-License-Identifier: Apache-2.0
// Serves the test on descriptor 3.
#include "tests/integrity/app.h"

#include <csignal>
#include <cstdlib>
#include <sstream>

#include "tests/testing/channel.h"

namespace nd::integrity {

Words::Words(const std::string& text) {
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const std::size_t cut = word.find('=');
    if (cut != std::string::npos) values_[word.substr(0, cut)] = word.substr(cut + 1);
  }
}
std::string Words::Text(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string() : found->second;
}
std::uint64_t Words::Number(const std::string& key, std::uint64_t otherwise) const {
  const std::string text = Text(key);
  return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 10);
}
Address Words::At(const std::string& key) const {
  return Must(Address::Parse(Text(key)), key.c_str());
}

void Die(const std::string& what) {
  testing::PutMessage(3, what);
  std::_Exit(1);
}

void Must(const Status& status, const char* what) {
  if (!status.ok()) Die(std::string(what) + ": " + status.ToString());
}

int RunApp() {
  std::signal(SIGPIPE, SIG_IGN);
  testing::Serve([](const std::string& message) -> std::string {
    const Words words(message);
    const std::string program = words.Text("program");
    if (program == "transfer") return RunTransfer(words);
    if (program == "order") return RunOrder(words);
    if (program == "flips") return RunFlips(words);
    if (program == "sleep") return RunSleep(words);
    return "no program called \"" + program + "\"";
  });
  std::_Exit(0);
}

}  // namespace nd::integrity
