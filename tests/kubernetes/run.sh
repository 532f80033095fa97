#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/kubernetes/check.py finds nothing wrong with the manifests of the tree, and each of these mistakes.
set -euo pipefail
bin=$(readlink -f "${1:?directory of the binaries}")
top=$(dirname "$(readlink -f "$0")")/../..
/usr/bin/python3 -c 'import yaml' 2> /dev/null || {
  echo "SKIPPED: python3-yaml is not installed"
  exit 77
}
work=$(mktemp -d "${TMPDIR:-/tmp}/nd-kubernetes-XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

"$top/deploy/kubernetes/check.py" --bin "$bin"
yamllint -d '{extends: default, rules: {line-length: disable, document-start: disable, braces: disable, indentation: {indent-sequences: whatever}}}' \
  "$top/deploy/kubernetes" 2> /dev/null || [ $? -eq 127 ] || fail "yamllint"

mistakes=0
# mistake FILE SED-EXPRESSION PART-OF-THE-FINDING
mistake() {
  rm -rf "$work/deploy" "$work/daemon"
  mkdir -p "$work/deploy" "$work/daemon/csi"
  cp -r "$top/deploy/kubernetes" "$top/deploy/container" "$top/deploy/prometheus" "$work/deploy/"
  cp "$top/daemon/csi/driver.h" "$work/daemon/csi/"
  sed -i "$2" "$work/$1"
  ! cmp -s "$top/$1" "$work/$1" || fail "'$2' changes nothing in $1"
  # Without kubectl the check itself must find the mistake.
  ! found=$(PATH=$work "$work/deploy/kubernetes/check.py" --bin "$bin") || fail "'$2' in $1 is not noticed"
  [[ $found == *"$3"* ]] || fail "'$2' in $1 gives no finding with '$3' but: $found"
  mistakes=$((mistakes + 1))
}
base=deploy/kubernetes/base
mistake $base/broker.yaml 's/hostPID: true/hostPid: true/' "'hostPid' is no field"
mistake $base/broker.yaml 's/hostNetwork: true/hostNetwork: "yes"/' "wrong type"
mistake $base/broker.yaml 's/mountPath: \/etc/path: \/etc/' "'mountPath' is missing"
mistake $base/broker.yaml '0,/name: run$/s//name: other/' "there is no volume other"
mistake $base/broker.yaml 's/serviceAccountName: ndbroker/serviceAccountName: none/' "no ServiceAccount none"
mistake $base/broker.yaml 's/image: ndbroker/image: example.org\/else/' "is not made by deploy/container"
mistake $base/broker.yaml 's/"--config"/"--configuration"/' "no option --configuration"
mistake $base/broker.yaml 's/path: \/readyz/path: \/ready/' "does not serve /ready"
mistake $base/broker.yaml '0,/port: metrics/s//port: http/' "asks port http"
mistake $base/broker.yaml '0,/app.kubernetes.io\/name: ndbrokerd$/!{0,/app.kubernetes.io\/name: ndbrokerd$/s/name: ndbrokerd$/name: other/}' "does not match the labels"
mistake $base/broker.yaml '/configMap:/{n;s/ndbrokerd/none/}' "no ConfigMap none"
mistake $base/csi-node.yaml 's/privileged: true/privileged: false/' "Bidirectional needs a privileged container"
mistake $base/csi-node.yaml 's/--kubelet-dir/--kubelet/' "no option --kubelet"
mistake $base/csidriver.yaml 's/csi.ndbroker.dev/csi.example.org/' "the driver is called csi.ndbroker.dev"
mistake $base/csidriver.yaml 's/Ephemeral/Temporary/' "must be one of"
mistake $base/kustomization.yaml 's/broker.yaml/brokers.yaml/' "brokers.yaml does not exist"
mistake $base/ndbrokerd.toml 's/"serve"/"yes"/' 'must be "refuse"'
mistake deploy/kubernetes/examples/pod.yaml 's/driver: csi.ndbroker.dev/driver: csi.example.org/' "must be of csi.ndbroker.dev"
mistake deploy/kubernetes/examples/pod-hostpath.yaml 's/\/run\/ndbroker\/client/\/run\/ndbroker/' "mounts its 'client'"
mistake deploy/kubernetes/overlays/monitoring/podmonitor.yaml 's/port: metrics/port: http/' "no selected pod has a port http"
mistake deploy/kubernetes/overlays/monitoring/rules.yaml '0,/> 3/s//> 4/' "is not what check.py --write-rules writes"
mistake deploy/kubernetes/overlays/verbs/devices.yaml 's/name: ndbrokerd/name: other/' "which is not there"
mistake deploy/container/build.sh 's/ndbroker-csi/ndbroker-cs1/g' "does not put /usr/sbin/ndbroker-csi into the image"
echo "$mistakes mistakes are noticed"
