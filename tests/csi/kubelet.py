#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls a CSI driver as the kubelet does: kubelet.py SOCKET CALL [FIELD=VALUE...]

The messages are encoded here, by the field numbers of the public specification, so that a wrong number in the
driver's .proto files is noticed. Prints the fields of the answer, one a line; exit code 1 with the gRPC status code
and message on stderr when the driver refuses.
"""
import sys

import grpc

CSI, KUBELET = "csi.v1.", "pluginregistration."
POD = "csi.storage.k8s.io/"
# Call: (path, {field of the request: (number, kind)}, {number of the answer's field: name})
CALLS = {
    "info": (KUBELET + "Registration/GetInfo", {}, {1: "type", 2: "name", 3: "endpoint", 4: "version"}),
    "registered": (KUBELET + "Registration/NotifyRegistrationStatus", {"yes": (1, "bool"), "error": (2, "text")}, {}),
    "plugin": (CSI + "Identity/GetPluginInfo", {}, {1: "name", 2: "vendor_version"}),
    "capabilities": (CSI + "Identity/GetPluginCapabilities", {}, {}),
    "probe": (CSI + "Identity/Probe", {}, {}),
    "node": (CSI + "Node/NodeGetInfo", {}, {1: "node_id"}),
    "node-capabilities": (CSI + "Node/NodeGetCapabilities", {}, {}),
    "publish": (CSI + "Node/NodePublishVolume",
                {"volume": (1, "text"), "target": (4, "text"), "capability": (5, "capability"),
                 "readonly": (6, "bool"), "context": (8, "pair")}, {}),
    "unpublish": (CSI + "Node/NodeUnpublishVolume", {"volume": (1, "text"), "target": (2, "text")}, {}),
}


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def encode(number, kind, value):
    if kind == "bool":
        return varint(number << 3) + varint(int(value == "true"))
    if kind == "capability":  # VolumeCapability: block = 1, mount = 2 {fs_type = 1}; access_mode = 3 {mode = 1}.
        access = field(1, b"") if value == "block" else field(2, field(1, b"ext4"))
        return field(number, access + field(3, varint(1 << 3) + varint(1)))
    if kind == "pair":
        key, _, text = value.partition(":")
        return field(number, field(1, (POD + key).encode()) + field(2, text.encode()))
    return field(number, value.encode())


def decode(data):
    def take():
        nonlocal data
        value = shift = 0
        while True:
            byte, data = data[0], data[1:]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while data:
        key = take()
        if key & 7 != 2:
            sys.exit(f"the answer has a field {key >> 3} of wire type {key & 7}")
        size = take()
        yield key >> 3, data[:size].decode()
        data = data[size:]


def main():
    socket, name, *arguments = sys.argv[1:]
    path, request, answer = CALLS[name]
    message = b""
    for argument in arguments:
        key, _, value = argument.partition("=")
        message += encode(*request[key], value)
    channel = grpc.insecure_channel("unix:" + socket)
    call = channel.unary_unary("/" + path)  # Without serializers gRPC passes the bytes through.
    try:
        reply = call(message, timeout=20, wait_for_ready=True)
    except grpc.RpcError as error:
        print(f"{error.code().name}: {error.details()}", file=sys.stderr)
        sys.exit(1)
    for number, text in decode(reply):
        print(answer[number], text)


main()
