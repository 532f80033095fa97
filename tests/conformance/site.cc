// SPDX-License-Identifier: Apache-2.0
// Lets the suite run on devices of any name and address.
#include "tests/conformance/site.h"

#include <cstdlib>
#include <sstream>

namespace nd::conformance {
namespace {

constexpr std::string_view kSides[2] = {"NDBROKER_CONFORMANCE_A", "NDBROKER_CONFORMANCE_P"};

// "key=value" of each word.
std::vector<std::pair<std::string, std::string>> Words(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> words;
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;) {
    const std::size_t cut = word.find('=');
    words.emplace_back(word.substr(0, cut), cut == std::string::npos ? std::string() : word.substr(cut + 1));
  }
  return words;
}

std::string ReadSide(std::string_view text, std::string_view name, std::vector<SiteAdapter>* side) {
  for (const auto& [adapter, list] : Words(text)) {
    SiteAdapter made{adapter, {}};
    std::istringstream in{list};
    for (std::string part; std::getline(in, part, ',');) {
      const auto address = Address::Parse(part);
      if (!address.ok()) return std::string(name) + ": \"" + part + "\" of " + adapter + " is no address";
      made.addresses.push_back(*address);
    }
    side->push_back(made);
  }
  if (side->size() < 2 || (*side)[0].addresses.size() < 2 || (*side)[1].addresses.empty()) {
    return std::string(name) + " must name two adapters, the first with two addresses, as in " +
           "\"rxe0=10.9.0.1,10.9.0.2 rxe1=10.9.1.1\"";
  }
  for (const SiteAdapter& adapter : *side) {
    if (adapter.addresses.empty()) return std::string(name) + ": " + adapter.name + " needs an address";
  }
  return {};
}

std::string Environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::string() : text;
}

}  // namespace

Site ParseSite(std::string_view a, std::string_view p, std::string_view wire) {
  Site site;
  site.error = ReadSide(a, kSides[0], &site.side[0]);
  if (site.error.empty()) site.error = ReadSide(p, kSides[1], &site.side[1]);
  const auto cable = Words(wire);
  for (std::size_t i = 0; i < 2 && cable.size() == 2; ++i) {
    site.near[i] = cable[i].first;
    site.far[i] = cable[i].second;
  }
  if (site.error.empty() && !cable.empty() && (cable.size() != 2 || !site.wired() || site.far[1].empty())) {
    site.error =
        "NDBROKER_CONFORMANCE_WIRE must be \"NEAR=FAR NEAR=FAR\", and each side needs a third adapter";
  }
  return site;
}

const Site& TheSite() {
  static const Site site = ParseSite(Environment(kSides[0].data()), Environment(kSides[1].data()),
                                     Environment("NDBROKER_CONFORMANCE_WIRE"));
  return site;
}

}  // namespace nd::conformance
