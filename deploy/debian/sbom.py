#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sbom.py PACKAGE.deb...: the bill of materials of these packages as SPDX 2.3 (JSON) on standard output.

Lists each package with its checksum, what it needs at run time with the versions it was built against, and the
libraries that exist only as headers and so are inside the programs. The same packages give the same text.
"""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

# Debian packages whose code is compiled in: header-only, or linked statically.
COMPILED_IN = ["libcli11-dev", "libstdc++-12-dev"]
LICENSES = {"libcli11-dev": "BSD-3-Clause",
            "libstdc++-12-dev": "GPL-3.0-or-later WITH GCC-exception-3.1"}


def field(deb: str, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-f", deb, name], check=True, capture_output=True, text=True).stdout.strip()


def installed_version(package: str) -> str:
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\n", package], capture_output=True, text=True)
    return query.stdout.splitlines()[0] if query.returncode == 0 and query.stdout.strip() else "NOASSERTION"


def providers() -> dict:
    """Virtual packages, such as libspdlog1.10-fmt9, and the installed packages that provide them."""
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${Provides}\n"], check=True, capture_output=True, text=True)
    provided = {}
    for line in query.stdout.splitlines():
        package, _, names = line.partition("\t")
        for name in filter(None, names.split(",")):
            provided.setdefault(re.sub(r"[ (].*", "", name.strip()), package)
    return provided


def identifier(name: str) -> str:
    return "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def foreign(name: str) -> dict:
    version = installed_version(name)
    package = {"SPDXID": identifier(name), "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
               "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
               "licenseDeclared": LICENSES.get(name, "NOASSERTION"), "copyrightText": "NOASSERTION"}
    if version != "NOASSERTION":
        package["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                    "referenceLocator": f"pkg:deb/debian/{name}@{version}"}]
    return package


def main(debs: list) -> None:
    packages, relationships, all_hashes = {}, [], hashlib.sha256()
    provided = providers()
    own = {field(deb, "Package") for deb in debs}
    for deb in sorted(debs, key=os.path.basename):
        name, version = field(deb, "Package"), field(deb, "Version")
        with open(deb, "rb") as content:
            digest = hashlib.sha256(content.read()).hexdigest()
        all_hashes.update(digest.encode())
        packages[name] = {
            "SPDXID": identifier(name), "name": name, "versionInfo": version,
            "packageFileName": os.path.basename(deb), "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
            "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
            "copyrightText": "the ndbroker authors", "summary": field(deb, "Description").splitlines()[0],
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/ndbroker/{name}@{version}"}]}
        relationships.append(("SPDXRef-DOCUMENT", "DESCRIBES", identifier(name)))
        needed = [re.sub(r"[ (|:].*", "", part.strip()) for part in field(deb, "Depends").split(",") if part.strip()]
        for other in sorted({need if need in own or installed_version(need) != "NOASSERTION" else provided.get(need, need)
                             for need in needed}):
            if other not in own:
                packages.setdefault(other, foreign(other))
            relationships.append((identifier(name), "DEPENDS_ON", identifier(other)))
        if field(deb, "Architecture") != "all" and not name.endswith("-dev"):
            for other in COMPILED_IN:
                packages.setdefault(other, foreign(other))
                relationships.append((identifier(other), "BUILD_DEPENDENCY_OF", identifier(name)))
    created = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    json.dump({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "ndbroker",
        "documentNamespace": f"https://ndbroker.invalid/spdx/{all_hashes.hexdigest()}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: ndbroker-sbom"]},
        "packages": [packages[name] for name in sorted(packages)],
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relationships],
    }, sys.stdout, indent=1)
    print()


main(sys.argv[1:])
