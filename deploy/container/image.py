#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a root directory as an OCI image in one archive: image.py ROOT ARCHIVE VERSION

Written by hand, because the tools that do it are for registries. The same root gives the same archive: files are in
order, and every time is that of the epoch.
"""
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile

MEDIA = "application/vnd.oci.image."


def neutral(entry):
    entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def layer(root):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for folder, folders, files in os.walk(root):
            folders.sort()
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in sorted(files + links) if folder == root else [""] + sorted(files + links):
                path = os.path.join(folder, name) if name else folder
                archive.add(path, os.path.relpath(path, root), recursive=False, filter=neutral)
    return data.getvalue()


def main():
    root, path, version = sys.argv[1:]
    plain = layer(root)
    packed = gzip.compress(plain, compresslevel=6, mtime=0)
    blobs = {}

    def put(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        blobs["blobs/sha256/" + digest] = data
        return {"mediaType": MEDIA + kind, "digest": "sha256:" + digest, "size": len(data)}

    def text(value):
        return json.dumps(value, sort_keys=True).encode()

    config = put(text({
        "architecture": "amd64", "os": "linux",
        "config": {"Cmd": ["/usr/sbin/ndbrokerd"], "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
                   "Labels": {"org.opencontainers.image.title": "ndbroker", "org.opencontainers.image.version": version,
                              "org.opencontainers.image.licenses": "Apache-2.0"}},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]}}), "config.v1+json")
    manifest = put(text({"schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json", "config": config,
                         "layers": [put(packed, "layer.v1.tar+gzip")]}), "manifest.v1+json")
    manifest["annotations"] = {"org.opencontainers.image.ref.name": "localhost/ndbroker:" + version}
    blobs["index.json"] = text({"schemaVersion": 2, "manifests": [manifest]})
    blobs["oci-layout"] = text({"imageLayoutVersion": "1.0.0"})
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(blobs):
            entry = tarfile.TarInfo(name)
            entry.size = len(blobs[name])
            archive.addfile(entry, io.BytesIO(blobs[name]))


main()
