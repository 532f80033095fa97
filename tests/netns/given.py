#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of the fd lane without the checks of the library gives the broker sockets that it must refuse.

given.py LANE break: gives good sockets, keeps a duplicate and ends the listening socket with it.
given.py LANE early: gives sockets for more operations than the broker waits for.
given.py LANE many: as root; another user makes the broker serve all the network namespaces that it may have.
given.py LANE ADDRESS PORT [OTHER]: in a served network namespace; ADDRESS is one of this namespace, and nobody listens
at PORT of it. OTHER is the path of another network namespace that this process may enter. Prints a line for each case
and ends with 1 when a broker's answer is wrong."""
import ctypes
import os
import socket
import struct
import sys
import time

NDSO, NDMG, NDTK, NDAK = 0x4E44534F, 0x4E444D47, 0x4E44544B, 0x4E44414B
SUCCESS, INVALID_PARAMETER, CONNECTION_REFUSED, FULL = 0, 0xC000000D, 0xC0000236, 0xC000009A
ACCESS_DENIED, INVALID_DEVICE = 0xC0000022, 0xC00002B6
GIVES_SOCKETS = 0x2


def varint(number):
    out = b""
    while True:
        byte, number = number & 0x7F, number >> 7
        out += bytes([byte | (0x80 if number else 0)])
        if not number:
            return out


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """The fields of a message: number -> its last value."""
    found, at = {}, 0

    def take():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        key = take()
        value = take()
        if key & 7 == 2:
            found[key >> 3] = data[at:at + value]
            at += value
        else:
            found[key >> 3] = value
    return found


class Lane:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        self.socket.connect(path)
        magic, _, _, self.token, self.features, _ = struct.unpack("=IHH16sII", self.socket.recv(4096))
        assert magic == NDTK and self.features & GIVES_SOCKETS, f"the broker asks for no sockets: {self.features:#x}"
        self.op, self.unread = 0, b""

    def give(self, op_id, sockets, count=None, size=24, version=1):
        record = struct.pack("=IHHQII", NDSO, version, size, op_id, len(sockets) if count is None else count, 0)
        numbers = struct.pack(f"{len(sockets)}i", *(one.fileno() for one in sockets))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if sockets else []
        self.socket.sendmsg([record], rights)

    def send(self, kind, body, op_id=None):
        if op_id is None:
            self.op += 1
            op_id = self.op
        message = field(1, op_id) + field(kind, body)
        self.socket.send(struct.pack("=IHHI", NDMG, 1, 8, len(message)) + message)

    def answer(self):
        """The next completion as fields; None: the broker has hung up or ended the session."""
        while True:
            while self.unread:
                size = struct.unpack_from("=I", self.unread)[0]
                message, self.unread = fields(self.unread[4:4 + size]), self.unread[4 + size:]
                if 6 in message:
                    return None
                if 1 in message:  # Others are events.
                    return fields(message[1])
            try:
                datagram, _, _, _ = socket.recv_fds(self.socket, 1 << 18, 8)
            except ConnectionResetError:
                return None
            if not datagram:
                return None
            if struct.unpack_from("=I", datagram)[0] == NDMG:
                self.unread = datagram[8:]
            else:
                self.socket.send(struct.pack("=IHHQ", NDAK, 1, 16, struct.unpack_from("=Q", datagram, 8)[0]))

    def ask(self, kind, body=b""):
        self.send(kind, body)
        return self.answer()

    def hello(self):
        return self.ask(2, field(1, self.token) + field(2, 1) + field(3, 1) + field(4, b"given"))

    def close(self):
        self.socket.close()


def code(answer):
    return fields(answer.get(2, b"")).get(1, 0) if answer is not None else None


def sentence(answer):
    return fields(answer.get(2, b"")).get(4, b"").decode() if answer is not None else "(the broker hung up)"


def tcp():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def routes():
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)


failures = 0


def check(name, good, text):
    global failures
    print(f"{'refused' if good else 'WRONG'}: {name}: {text}", flush=True)
    failures += not good


def tampered(address):
    """Name, socket, what keeps it so, and a part of the broker's sentence."""
    bound = tcp()
    bound.bind((address, 0))
    listening = tcp()
    listening.listen()
    target = tcp()
    target.bind((address, 0))
    target.listen()
    connected = tcp()
    connected.connect(target.getsockname())
    waiting = tcp()
    waiting.setblocking(False)
    waiting.connect_ex(("192.0.2.1", 9))  # Without a route it fails and stays fresh, so it is bound in that case, too.
    if waiting.getsockname()[1] == 0:
        waiting.bind((address, 0))
    pair = socket.socketpair()
    return [("a bound socket", bound, None, "is bound already"),
            ("a listening socket", listening, None, "listens already"),
            ("a connected socket", connected, target, "is connected already"),
            ("a socket on its way", waiting, None, "already"),
            ("a UDP socket", socket.socket(socket.AF_INET, socket.SOCK_DGRAM), None, "of another kind"),
            ("a Unix socket", pair[0], pair[1], "of another kind"),
            ("no socket", open("/dev/null"), None, "not a socket")]


def of_another_network(path):
    libc = ctypes.CDLL(None, use_errno=True)
    own, other = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(path, os.O_RDONLY)
    if libc.setns(other, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    sockets = tcp(), routes()
    if libc.setns(own, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    return sockets


def break_the_listener(path):
    """The adapter of the network goes, and it does not come back at once."""
    lane, mine = Lane(path), [routes(), tcp()]
    lane.give(0, mine)
    assert code(lane.hello()) == SUCCESS
    adapter = lane.ask(4)[3]
    mine[1].shutdown(socket.SHUT_RDWR)
    end, answer = time.monotonic() + 20, lane.ask(8, field(1, adapter))
    while code(answer) == SUCCESS and time.monotonic() < end:
        time.sleep(0.02)
        answer = lane.ask(8, field(1, adapter))
    check("an operation on an adapter whose listening socket was ended", code(answer) == INVALID_DEVICE, sentence(answer))
    other = Lane(path)
    other.give(0, [routes(), tcp()])
    answer = other.hello()
    check("Hello after that", code(answer) == ACCESS_DENIED and "changed a socket" in sentence(answer), sentence(answer))


def give_too_early(path):
    lane = Lane(path)
    lane.give(0, [routes(), tcp()])
    assert code(lane.hello()) == SUCCESS
    for op in range(100, 116):
        lane.give(op, [tcp()])
    check("sixteen sockets before their operations are not", code(lane.ask(4)) == SUCCESS, "the session goes on")
    lane.give(116, [tcp()])
    check("the seventeenth", lane.answer() is None, "the lane ended")


def open_many(path):
    """A network outlives its last session by ten seconds, so a user needs few sessions for many networks."""
    libc = ctypes.CDLL(None, use_errno=True)
    served, answer, kept = 0, None, []
    while served < 600:
        if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), "unshare")
        os.seteuid(4242)
        lane = Lane(path)
        os.seteuid(0)
        lane.give(0, [routes(), tcp()])
        answer = lane.hello()
        if code(answer) != SUCCESS:
            break
        served += 1
        kept.append(lane)
        if len(kept) > 200:  # The quota of sessions is 256.
            kept.pop().close()
    check(f"Hello after {served} network namespaces of one user", code(answer) == FULL and "its share" in sentence(answer),
          sentence(answer))
    check("a user with fewer is not", 256 <= served <= 384, f"{served} of 512 were served")
    other = Lane(path)
    other.give(0, [routes(), tcp()])
    answer = other.hello()
    check("another user is not", code(answer) == SUCCESS, sentence(answer))


def main():
    parts = {"break": break_the_listener, "early": give_too_early, "many": open_many}
    if sys.argv[2] in parts:
        parts[sys.argv[2]](sys.argv[1])
        sys.exit(failures != 0)
    path, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    bad = tampered(address)
    if len(sys.argv) > 4:
        stranger, strange_routes = of_another_network(sys.argv[4])
        bad.append(("a socket of another namespace", stranger, None, "of another network namespace"))

    # As the sockets of the network: Hello is refused.
    for name, one, _, part in bad:
        lane = Lane(path)
        lane.give(0, [routes(), one])
        answer = lane.hello()
        check(f"{name} for the network", code(answer) == INVALID_PARAMETER and part in sentence(answer), sentence(answer))
        lane.close()
    if len(sys.argv) > 4:
        lane = Lane(path)
        lane.give(0, [strange_routes, tcp()])
        answer = lane.hello()
        check("routes of another namespace", code(answer) == INVALID_PARAMETER and "of another network" in sentence(answer),
              sentence(answer))
        lane.close()
    for name, sockets in (("no routes", [tcp()]), ("routes alone", [routes()]), ("two of a kind", [routes(), tcp(), tcp()])):
        lane = Lane(path)
        lane.give(0, sockets)
        answer = lane.hello()
        check(name, code(answer) == INVALID_PARAMETER, sentence(answer))
        lane.close()

    # Records that are wrong end the lane.
    two = [routes(), tcp()]
    for name, arguments in (("a record without descriptors", {"sockets": []}), ("a wrong count", {"sockets": two, "count": 3}),
                            ("another version", {"sockets": two, "version": 2}), ("another size", {"sockets": two, "size": 32}),
                            ("a socket for an operation before Hello", {"sockets": two[1:], "op_id": 7})):
        lane = Lane(path)
        lane.give(**({"op_id": 0} | arguments))
        check(name, lane.answer() is None, "the lane ended")
        lane.close()
    lane = Lane(path)
    lane.give(0, two)
    lane.give(0, two)
    check("the network's sockets twice", lane.answer() is None, "the lane ended")
    lane.close()

    # As the socket of a Connect: the Connect is refused, the session goes on, and a fresh one is taken.
    lane = Lane(path)
    lane.give(0, two)
    good = lane.hello()
    check("an honest Hello is not", code(good) == SUCCESS, sentence(good))
    adapter = lane.ask(4)[3]

    def connect(one, destination, ask=True):
        connector = lane.ask(8, field(1, adapter))[3]
        pair = lane.ask(7, field(1, adapter) + field(2, 1) + field(3, 1))[3]
        lane.op += 1
        if one is not None:
            lane.give(lane.op, [one])
        to = field(1, 4) + field(2, socket.inet_aton(destination)) + field(3, port)
        source = field(1, 4) + field(2, socket.inet_aton(address))
        lane.send(13, field(1, connector) + field(2, pair) + field(3, to) + field(7, source), op_id=lane.op)
        return lane.answer() if ask else None

    host = os.environ["ND_HOST_ADDRESS"]
    for name, one, _, part in bad:
        answer = connect(one, host)
        check(f"{name} for a Connect", code(answer) == INVALID_PARAMETER and part in sentence(answer), sentence(answer))
    answer = connect(routes(), host)
    check("routes for a Connect", code(answer) == INVALID_PARAMETER, sentence(answer))
    answer = connect(None, host)
    check("a Connect without a socket", code(answer) not in (SUCCESS, None) and "no socket" in sentence(answer), sentence(answer))
    answer = connect(tcp(), host)
    check("a fresh one is not (nobody listens)", code(answer) == CONNECTION_REFUSED, sentence(answer))
    lane.close()
    sys.exit(failures != 0)


main()
