// SPDX-License-Identifier: Apache-2.0
// ndctl tls: certificates for a trial of remote administration.
#include <memory>

#include "base/tls/certificates.h"
#include "cli/commands.h"
#include "cli/noun.h"

namespace nd::cli {

void AddTls(CLI::App& root, Context& context) {
  CLI::App* tls = root.add_subcommand("tls", "Certificates for 'ndctl --host': init");
  tls->require_subcommand(1);
  CLI::App* init = AddVerb(*tls, "init", "Make an authority and certificates for a trial or a test");
  const auto set = std::make_shared<nd::tls::CertificateSet>();
  init->add_option("DIR", set->directory, "Where to put them; made when it does not exist")->required();
  init->add_option("--server", set->hosts, "Name or IP address of the broker's host (repeatable)")
      ->default_val(std::vector<std::string>{"localhost", "127.0.0.1"});
  init->add_option("--client", set->people, "Name of an administrator (repeatable)")
      ->default_val(std::vector<std::string>{"admin"});
  init->add_option("--days", set->days, "How long they are good")
      ->check(CLI::Range(1, 3650))
      ->capture_default_str();
  init->callback([&context, set] {
    context.run = [&context, set]() -> Failure {
      const Status made = nd::tls::MakeCertificates(*set);
      if (made == StatusCode::kInvalidParameter) return Error{Exit::kUsage, made.message(), {}, {}};
      if (!made.ok()) return Error{Exit::kFailed, made.message(), {}, {}};
      std::string people;
      for (const std::string& name : set->people) people += " --admin " + name;
      return context.Write("certificates are in " + set->directory +
                           "\n  on the broker's host: ndbroker-gateway --tls " + set->directory +
                           " --listen IP:9886" + people + "\n  here: ca.pem, " + set->people.front() +
                           ".pem and " + set->people.front() + "-key.pem, alone in a directory for --tls\n" +
                           "keep ca-key.pem away from both: who has it can make administrators\n");
    };
  });
}

}  // namespace nd::cli
