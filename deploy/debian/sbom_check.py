#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sbom_check.py FOLDER: the bill of materials in FOLDER, ndbroker.spdx.json, is SPDX 2.3 and describes exactly the packages
beside it. Prints a line for each error; exits 1 when there is one."""
import hashlib
import json
import pathlib
import re
import subprocess
import sys

# What SPDX 2.3 requires.
DOCUMENT = ["spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships"]
PACKAGE = ["SPDXID", "name", "versionInfo", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"]
KINDS = {"DESCRIBES", "DEPENDS_ON", "BUILD_DEPENDENCY_OF"}

folder = pathlib.Path(sys.argv[1])
errors = []


def expect(holds: bool, error: str) -> None:
    if not holds:
        errors.append(error)


def field(deb: pathlib.Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-f", deb, name], check=True, capture_output=True, text=True).stdout.strip()


def real_packages(virtual: str) -> list:
    """The installed packages that provide a virtual one."""
    status = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Provides}\n"], check=True, capture_output=True, text=True)
    return [line.split()[0] for line in status.stdout.splitlines() if virtual in re.split(r"[ ,]+", line)[1:]]


def check_form(document: dict) -> None:
    for key in DOCUMENT:
        expect(key in document, f"the document has no {key}")
    expect(document.get("spdxVersion") == "SPDX-2.3", "spdxVersion is not SPDX-2.3")
    expect(document.get("dataLicense") == "CC0-1.0", "dataLicense is not CC0-1.0")
    created = document.get("creationInfo", {}).get("created", "")
    expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created) is not None, f"created is \"{created}\"")
    expect(not created.startswith("1970"), "created is the beginning of 1970: SOURCE_DATE_EPOCH was not set")
    identifiers = [package.get("SPDXID", "") for package in document["packages"]] + [document.get("SPDXID")]
    expect(len(identifiers) == len(set(identifiers)), "an SPDXID occurs twice")
    for package in document["packages"]:
        name = package.get("name", "?")
        for key in PACKAGE:
            expect(bool(package.get(key)), f"{name} has no {key}")
        expect(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", package.get("SPDXID", "")) is not None, f"{name} has a bad SPDXID")
        expect(package.get("versionInfo") != "NOASSERTION", f"{name} has no known version: it is not installed here")
        for reference in package.get("externalRefs", []):
            locator = reference["referenceLocator"]
            expect(re.fullmatch(r"pkg:deb/[a-z]+/[^@]+@.+", locator) is not None, f"{name}: {locator} is no package URL")
    for relation in document["relationships"]:
        for end in ("spdxElementId", "relatedSpdxElement"):
            expect(relation[end] in identifiers, f"a relationship names {relation[end]}, which is not there")
        expect(relation["relationshipType"] in KINDS, f"relationship {relation['relationshipType']}")


def check_packages(document: dict) -> None:
    known = {package["name"]: package for package in document["packages"]}
    relations = {(r["spdxElementId"], r["relationshipType"], r["relatedSpdxElement"]) for r in document["relationships"]}
    debs = sorted(folder.glob("*.deb"))
    expect(bool(debs), f"there is no package in {folder}")
    described = {package["packageFileName"] for package in document["packages"] if "packageFileName" in package}
    expect(described == {deb.name for deb in debs}, f"it describes {sorted(described)}")
    for deb in debs:
        name = field(deb, "Package")
        package = known.get(name)
        if package is None:
            errors.append(f"{name} is missing")
            continue
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        expect(package.get("checksums") == [{"algorithm": "SHA256", "checksumValue": digest}], f"{deb.name} has another checksum")
        expect(package["versionInfo"] == field(deb, "Version"), f"{name} has another version")
        expect(("SPDXRef-DOCUMENT", "DESCRIBES", package["SPDXID"]) in relations, f"the document does not describe {name}")
        for part in filter(None, field(deb, "Depends").split(",")):
            needed = re.sub(r"[ (|:].*", "", part.strip())
            listed = [needed] if needed in known else real_packages(needed)
            expect(any((package["SPDXID"], "DEPENDS_ON", known[other]["SPDXID"]) in relations for other in listed if other in known),
                   f"{name} needs {needed}, which is not listed")


bill = json.loads((folder / "ndbroker.spdx.json").read_text())
check_form(bill)
check_packages(bill)
for error in errors:
    print(f"ndbroker.spdx.json: {error}", file=sys.stderr)
if errors:
    sys.exit(1)
print(f"ndbroker.spdx.json: SPDX 2.3, {len(bill['packages'])} packages, {len(bill['relationships'])} relationships")
