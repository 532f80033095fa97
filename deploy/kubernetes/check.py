#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the manifests without a cluster: check.py [--bin DIRECTORY] [--write-rules]

Debian 12 has neither the schemas of Kubernetes nor kustomize, so the rules are here: every object has the fields that
the API requires and only fields that this file knows, references between objects resolve, and what a manifest says about
the tree is so: image, paths, ports, options of the programs (--bin), the configuration, the alerts. With a kubectl on
the PATH each kustomization is also built. --write-rules writes overlays/monitoring/rules.yaml from deploy/prometheus.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
RULES = HERE / "overlays/monitoring/rules.yaml"
DRIVER = "csi.ndbroker.dev"
findings = []


def wrong(where, text):
    findings.append(f"{where}: {text}")


# ---- Shapes: a dict is an object (a name that ends in "!" is required), a list holds one kind of element, a type or a
# set of values is a leaf; ANY accepts everything.
ANY = object()
NAMES = {str: str}
KEYS = {"key!": str, "operator!": {"In", "NotIn", "Exists", "DoesNotExist"}, "values": [str]}
SELECTOR = {"matchLabels": NAMES, "matchExpressions": [KEYS]}
META = {"name!": str, "labels": NAMES, "annotations": NAMES, "namespace": str}
PROBE = {"httpGet": {"path!": str, "port!": (int, str), "scheme": str}, "exec": {"command!": [str]}, "periodSeconds": int,
         "failureThreshold": int, "timeoutSeconds": int, "initialDelaySeconds": int}
SECCOMP = {"type!": {"RuntimeDefault", "Localhost", "Unconfined"}, "localhostProfile": str}
SECURITY = {"runAsUser": int, "runAsGroup": int, "runAsNonRoot": bool, "privileged": bool,
            "allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool,
            "capabilities": {"drop": [str], "add": [str]}, "seccompProfile": SECCOMP}
CONTAINER = {"name!": str, "image!": str, "command": [str], "args": [str],
             "env": [{"name!": str, "value": str, "valueFrom": {"fieldRef": {"fieldPath!": str}}}],
             "ports": [{"name!": str, "containerPort!": int, "hostPort": int, "protocol": {"TCP", "UDP"}}],
             "securityContext": SECURITY, "startupProbe": PROBE, "readinessProbe": PROBE, "livenessProbe": PROBE,
             "resources": {"requests": {str: (str, int)}, "limits": {str: (str, int)}},
             "volumeMounts": [{"name!": str, "mountPath!": str, "readOnly": bool, "subPath": str,
                               "mountPropagation": {"None", "HostToContainer", "Bidirectional"}}]}
VOLUME = {"name!": str, "configMap": {"name!": str}, "emptyDir": {},
          "hostPath": {"path!": str, "type": {"", "Directory", "DirectoryOrCreate", "Socket", "File"}},
          "csi": {"driver!": str, "readOnly": bool, "volumeAttributes": NAMES}}
POD = {"serviceAccountName": str, "automountServiceAccountToken": bool, "priorityClassName": str, "hostNetwork": bool,
       "hostPID": bool, "nodeSelector": NAMES, "restartPolicy": {"Always", "Never", "OnFailure"},
       "tolerations": [{"key": str, "operator": {"Exists", "Equal"}, "effect": str}],
       "securityContext": {"runAsUser": int, "runAsNonRoot": bool, "fsGroup": int, "seccompProfile": SECCOMP},
       "containers!": [CONTAINER], "initContainers": [CONTAINER], "volumes": [VOLUME]}
PEER = {"podSelector": SELECTOR, "namespaceSelector": SELECTOR, "ipBlock": {"cidr!": str, "except": [str]}}
PORT = {"protocol": {"TCP", "UDP"}, "port": (int, str)}
RULE = {"alert!": str, "expr!": str, "for": str, "labels": NAMES, "annotations": NAMES}
KINDS = {
    ("v1", "Namespace"): {"metadata!": META},
    ("v1", "ServiceAccount"): {"metadata!": META, "automountServiceAccountToken": bool},
    ("v1", "Pod"): {"metadata!": META, "spec!": POD},
    ("storage.k8s.io/v1", "CSIDriver"): {"metadata!": META, "spec!": {
        "attachRequired": bool, "podInfoOnMount": bool, "storageCapacity": bool,
        "fsGroupPolicy": {"None", "File", "ReadWriteOnceWithFSType"}, "volumeLifecycleModes": [{"Ephemeral", "Persistent"}]}},
    ("apps/v1", "DaemonSet"): {"metadata!": META, "spec!": {
        "selector!": SELECTOR, "template!": {"metadata!": {"labels": NAMES}, "spec!": POD},
        "updateStrategy": {"type!": {"RollingUpdate", "OnDelete"}, "rollingUpdate": {"maxUnavailable": (int, str)}}}},
    ("networking.k8s.io/v1", "NetworkPolicy"): {"metadata!": META, "spec!": {
        "podSelector!": SELECTOR, "policyTypes": [{"Ingress", "Egress"}],
        "ingress": [{"from": [PEER], "ports": [PORT]}], "egress": [{"to": [PEER], "ports": [PORT]}]}},
    ("monitoring.coreos.com/v1", "PodMonitor"): {"metadata!": META, "spec!": {
        "selector!": SELECTOR, "podMetricsEndpoints!": [{"port!": str, "path": str, "interval": str, "relabelings": [{
            "sourceLabels": [str], "targetLabel": str, "regex": str, "replacement": str, "action": str}]}]}},
    ("monitoring.coreos.com/v1", "PrometheusRule"): {"metadata!": META,
                                                     "spec!": {"groups!": [{"name!": str, "rules!": [RULE]}]}},
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"): {
        "namespace": str, "resources!": [str], "configMapGenerator": [{"name!": str, "files!": [str], "behavior": {"create", "merge", "replace"}}],
        "images": [{"name!": str, "newName": str, "newTag": str}],
        "patches": [{"path!": str, "target": {"kind!": str, "name": str}}]},
}


def shape(where, value, form):
    if form is ANY:
        return
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return wrong(where, f"must be an object and is {value!r}")
        if str in form:
            for key, part in value.items():
                shape(f"{where}.{key}", part, form[str])
            return
        known = {name.rstrip("!"): part for name, part in form.items()}
        for name in form:
            if name.endswith("!") and name[:-1] not in value:
                wrong(where, f"'{name[:-1]}' is missing")
        for key, part in value.items():
            if key not in known:
                wrong(where, f"'{key}' is no field that check.py knows; one of {', '.join(sorted(known))}")
            else:
                shape(f"{where}.{key}", part, known[key])
    elif isinstance(form, list):
        if not isinstance(value, list) or not value:
            return wrong(where, "must be a list with something in it")
        for number, part in enumerate(value):
            shape(f"{where}[{number}]", part, form[0])
    elif isinstance(form, set):
        if value not in form:
            wrong(where, f"must be one of {', '.join(sorted(form))} and is {value!r}")
    elif not isinstance(value, form) or (isinstance(value, bool) and form is not bool):
        wrong(where, f"has the wrong type: {value!r}")


def load(path, patch=False):
    """The objects of a file, each checked alone."""
    objects = []
    for document in yaml.safe_load_all(path.read_text()):
        where = str(path.relative_to(HERE))
        if not isinstance(document, dict):
            wrong(where, "is not a mapping")
            continue
        kind = (document.get("apiVersion"), document.get("kind"))
        if kind not in KINDS:
            wrong(where, f"check.py does not know {kind}")
            continue
        objects.append((where, document))
        form = KINDS[kind]
        rest = {key: part for key, part in document.items() if key not in ("apiVersion", "kind")}
        if not patch:  # A patch lacks what it does not change.
            shape(where, rest, form)
    return objects


def bundle(directory):
    """The objects of a kustomization with those that it builds upon; images and patches are looked at too."""
    where = directory / "kustomization.yaml"
    (_, file), = load(where)
    objects, maps, images = [], set(), {}
    for name in file.get("resources", []):
        path = (directory / name).resolve()
        if path.is_dir():
            more, more_maps, more_images = bundle(path)
            objects += more
            maps |= more_maps
            images.update(more_images)
        elif path.is_file():
            objects += load(path)
        else:
            wrong(where.relative_to(HERE), f"{name} does not exist")
    for generator in file.get("configMapGenerator", []):
        maps.add(generator["name"])
        for name in generator["files"]:
            if not (directory / name).is_file():
                wrong(where.relative_to(HERE), f"{name} does not exist")
    for image in file.get("images", []):
        images[image["name"]] = image
    for patch in file.get("patches", []):
        (_, document), = load(directory / patch["path"], patch=True)
        name = document["metadata"]["name"]
        target = [o for _, o in objects if o["kind"] == document["kind"] and o["metadata"]["name"] == name]
        if not target:
            wrong(where.relative_to(HERE), f"{patch['path']} patches {document['kind']} {name}, which is not there")
            continue
        for part in document["spec"]["template"]["spec"].get("containers", []):
            names = [c["name"] for c in target[0]["spec"]["template"]["spec"]["containers"]]
            if part["name"] not in names:
                wrong(where.relative_to(HERE), f"{patch['path']} patches container {part['name']}, which is not there")
    return objects, maps, images


def check_pod(where, spec, labels, objects, maps, images, binaries):
    of_kind = lambda kind: {o["metadata"]["name"]: o for _, o in objects if o["kind"] == kind}
    account = spec.get("serviceAccountName")
    if account and account not in of_kind("ServiceAccount"):
        wrong(where, f"there is no ServiceAccount {account}")
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    used = set()
    for container in spec["containers"]:
        if container["image"] not in images and container["image"] != "ndbroker":
            wrong(where, f"image {container['image']} is not made by deploy/container")
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            http = container.get(probe, {}).get("httpGet")
            if http and isinstance(http["port"], str) and http["port"] not in ports:
                wrong(where, f"{probe} asks port {http['port']}, which the container does not name")
            if http and http["path"] not in ("/readyz", "/livez", "/healthz"):
                wrong(where, f"the broker does not serve {http['path']}")
        for mount in container.get("volumeMounts", []):
            used.add(mount["name"])
            if mount["name"] not in volumes:
                wrong(where, f"there is no volume {mount['name']}")
            if mount.get("mountPropagation") == "Bidirectional" and not container["securityContext"].get("privileged"):
                wrong(where, "mountPropagation Bidirectional needs a privileged container")
        check_command(where, container, binaries)
    for name, volume in volumes.items():
        if name not in used:
            wrong(where, f"volume {name} is mounted nowhere")
        if len(volume) != 2:
            wrong(where, f"volume {name} must have one source")
        if "configMap" in volume and volume["configMap"]["name"] not in maps:
            wrong(where, f"there is no ConfigMap {volume['configMap']['name']}")
        if "csi" in volume and (volume["csi"]["driver"] != DRIVER or not volume["csi"].get("readOnly")):
            wrong(where, f"the volume must be of {DRIVER} and read-only")
        path = volume.get("hostPath", {}).get("path", "")
        if path == "/run/ndbroker" and not spec.get("hostPID") and "csi" not in where:
            wrong(where, "only the broker and its driver may mount /run/ndbroker; an application mounts its 'client'")


def check_command(where, container, binaries):
    program, *arguments = container.get("command", ["?"])
    name = pathlib.PurePosixPath(program).name
    build = (HERE.parent / "container/build.sh").read_text()
    if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", build):
        wrong(where, f"deploy/container/build.sh does not put {program} into the image")
    if binaries is None:
        return
    if not (binaries / name).is_file():
        return wrong(where, f"the build has no program {name}")
    usage = subprocess.run([binaries / name, "--help"], capture_output=True, text=True, check=False).stdout
    for argument in arguments:
        if argument.startswith("--") and not re.search(rf"(^|[\s,]){re.escape(argument)}(?![\w-])", usage):
            wrong(where, f"{name} has no option {argument}")


def check_bundle(directory, binaries):
    objects, maps, images = bundle(directory)
    seen = set()
    for where, item in objects:
        key = (item["kind"], item["metadata"]["name"])
        if key in seen:
            wrong(where, f"{key} is there twice")
        seen.add(key)
        if item["kind"] == "Pod":
            check_pod(where, item["spec"], item["metadata"].get("labels", {}), objects, maps, images, binaries)
        if item["kind"] == "DaemonSet":
            template = item["spec"]["template"]
            labels = template["metadata"]["labels"]
            for key, value in item["spec"]["selector"]["matchLabels"].items():
                if labels.get(key) != value:
                    wrong(where, f"the selector {key}={value} does not match the labels of the template")
            check_pod(where, template["spec"], labels, objects, maps, images, binaries)
        if item["kind"] == "CSIDriver" and item["metadata"]["name"] != DRIVER:
            wrong(where, f"the driver is called {DRIVER}")
        if item["kind"] == "PodMonitor":
            wanted = item["spec"]["selector"]["matchLabels"]
            targets = [o["spec"]["template"] for _, o in objects if o["kind"] == "DaemonSet"
                       and wanted.items() <= o["spec"]["template"]["metadata"]["labels"].items()]
            names = {p["name"] for t in targets for c in t["spec"]["containers"] for p in c.get("ports", [])}
            for endpoint in item["spec"]["podMetricsEndpoints"]:
                if endpoint["port"] not in names:
                    wrong(where, f"no selected pod has a port {endpoint['port']}")
    kubectl = shutil.which("kubectl")
    if kubectl:
        built = subprocess.run([kubectl, "kustomize", directory], capture_output=True, text=True, check=False)
        if built.returncode != 0:
            wrong(directory.relative_to(HERE), built.stderr.strip())
        for item in yaml.safe_load_all(built.stdout):
            kind = (item["apiVersion"], item["kind"])
            if kind in KINDS:
                shape(f"kubectl kustomize {directory.relative_to(HERE)}: {kind[1]}",
                      {k: v for k, v in item.items() if k not in ("apiVersion", "kind", "metadata")},
                      {k: v for k, v in KINDS[kind].items() if k != "metadata!"})


def check_tree(binaries):
    source = (HERE.parent.parent / "daemon/csi/driver.h").read_text()
    if f'"{DRIVER}"' not in source:
        wrong("daemon/csi/driver.h", f"the driver is not called {DRIVER}")
    if binaries is not None:
        for configuration in (HERE / "base/ndbrokerd.toml", HERE / "overlays/verbs/ndbrokerd.toml"):
            done = subprocess.run([binaries / "ndbrokerd", "--check-config", configuration], capture_output=True, text=True,
                                  check=False)
            if done.returncode != 0:
                wrong(configuration.relative_to(HERE), (done.stdout + done.stderr).strip())
    if RULES.read_text() != rules():
        wrong(RULES.relative_to(HERE), "is not what check.py --write-rules writes")


def rules():
    groups = yaml.safe_load((HERE.parent / "prometheus/ndbroker.rules.yml").read_text())["groups"]
    item = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": {"name": "ndbroker"},
            "spec": {"groups": groups}}
    return ("# SPDX-License-Identifier: Apache-2.0\n# Written by check.py --write-rules from deploy/prometheus.\n" +
            yaml.safe_dump(item, sort_keys=False, width=110))


def main():
    parser = argparse.ArgumentParser(description="Checks the Kubernetes manifests without a cluster.")
    parser.add_argument("--bin", type=pathlib.Path, help="programs whose options are looked up")
    parser.add_argument("--write-rules", action="store_true")
    options = parser.parse_args()
    if options.write_rules:
        RULES.write_text(rules())
        return
    check_tree(options.bin)
    directories = sorted(path.parent for path in HERE.rglob("kustomization.yaml"))
    for directory in directories:
        check_bundle(directory, options.bin)
    listed = {where for d in directories for where, _ in bundle(d)[0]}
    for path in sorted(HERE.rglob("*.yaml")):  # A file that no kustomization lists, such as an example.
        name = str(path.relative_to(HERE))
        if path.name != "kustomization.yaml" and name not in listed and path.name != "devices.yaml":
            for where, item in load(path):
                if item["kind"] == "Pod":
                    check_pod(where, item["spec"], {}, [], set(), {}, options.bin)
    for finding in sorted(set(findings)):
        print(finding)
    if findings:
        sys.exit(1)
    print(f"{len(directories)} kustomizations, {len(listed)} files: nothing wrong")


if __name__ == "__main__":
    main()
