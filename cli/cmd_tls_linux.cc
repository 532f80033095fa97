// SPDX-License-Identifier: Apache-2.0
// ndctl tls: certificates for a trial of remote administration.
#include <memory>

#include "base/tls/certificates.h"
#include "cli/commands.h"
#include "cli/noun.h"

namespace nd::cli {

void AddTls(Command root, Context& context) {
  Command tls = root.Add("tls", "Certificates for 'ndctl --host': init");
  tls.RequireCommand();
  Command init = tls.Add("init", "Make an authority and certificates for a trial or a test");
  const auto set = std::make_shared<nd::tls::CertificateSet>();
  set->hosts = {"localhost", "127.0.0.1"};
  set->people = {"admin"};
  init.Add("DIR", &set->directory, "Where to put them; made when it does not exist").Required();
  init.Add("--server", &set->hosts, "Name or IP address of the broker's host (repeatable)").ShowDefault();
  init.Add("--client", &set->people, "Name of an administrator (repeatable)").ShowDefault();
  init.Add("--days", &set->days, "How long they are good").Within(1, 3650).ShowDefault();
  init.OnRun(context, [&context, set]() -> Failure {
    const Status made = nd::tls::MakeCertificates(*set);
    if (made == StatusCode::kInvalidParameter) return Error{Exit::kUsage, made.message(), {}, {}};
    if (!made.ok()) return Error{Exit::kFailed, made.message(), {}, {}};
    std::string people;
    for (const std::string& name : set->people) people += " --admin " + name;
    return context.Write("certificates are in " + set->directory +
                         "\n  on the broker's host: ndbroker-gateway --tls " + set->directory +
                         " --listen IP:9886" + people + "\n  here: ca.pem, " + set->people.front() +
                         ".pem and " + set->people.front() + "-key.pem, alone in a directory for --tls\n" +
                         "keep ca-key.pem away from both: its holder can make administrators\n");
  });
}

}  // namespace nd::cli
