# SPDX-License-Identifier: Apache-2.0
"""What the profiles show between ndbroker and the goals, by the beginning of a row's name."""

SMALL = ("no single hot spot: checks of the posting and of the memory, two lines of the segment for each message (record "
         "and acknowledgement; of more than 32 bytes a third one), and a completion for each message")
FENCE = ("570 instructions from the post to the completion, with one whole fence, without which a Write of 8 bytes took 0.92 of the "
         "time (the middle half of the pairs: 0.85 to 1.08)")
RATE = ("no single hot spot: of the time of both ends 15 % is the taking of a record, 14 % the post, 11 % the writing of the record and 10 % "
        "the poll of the queue pair")
COPY = ("the copy into the receive, 82 % of the receiving core; where every byte is read the reading is 68 %, and the copy, which the "
        "floor does not make, 23 %")
POST = "570 instructions from the post to the completion; their whole fence takes 4 % of the time"
SET_UP = ("110 system calls and 24 context switches of all processes, each call between application and broker with a wake-up: of a connection on one "
          "core the kernel has 58 % of the time, the loop of the broker 16 % and the library 17 %")
WIRE = ("0.4 us of the library between the receive and the send of a small message; 4 KiB take 2,700 instructions more, for the CRC "
        "and the copy from the buffer in which it is checked")
STREAM = ("the copies of the kernel, 41 % of the sending and 36 % of the receiving core; the copy from the buffer into the target is "
          "22 % of the receiving core, and without half of it 1.02 times as much came through")
WAKE = "three system calls a message (ring, wait, read the doorbell) where the floor makes two"
WORD = ("two system calls a message, as the floor, on words that two processes share, of which the kernel finds the pages; and the work of the "
        "library before and after them")

REASONS = {
    "S": SMALL, "S8": RATE, "S1": FENCE, "S2": FENCE, "S4": FENCE, "S6": POST, "S7": COPY, "S11": POST,
    "S10": "a call of the kernel for each Write; a target that polls on the other thread of the same core slows it (compare S10b)",
    "X": WIRE, "X3": STREAM, "X4": STREAM, "X5": STREAM, "X6": STREAM,
    "C": SET_UP, "C4": "the loop of the broker waits with one call and receives with another",
    "C5": "of the time of all processes 73 % is the kernel's: for each call one to send, one that waits, one that wakes, and 1.5 context switches",
    "W": WAKE, "W1c": WORD,
    "N": ("the counter of a quiet connection is one more cache line on its way, and the memory of many connections leaves the "
          "cache"),
    "L": "the tables of the broker outgrow the cache",
    "M": "rows, history and their indexes; memory that a list has used is kept",
    "M1": "three or four pages of the segment, and the objects of the connection",
}


def reason(row_id):
    """The reason of the longest name that the row's name begins with."""
    return REASONS[max((name for name in REASONS if row_id.startswith(name)), key=len)]


def group(short_rows):
    """[(reason, [row id])] in the order of the rows."""
    grouped = {}
    for row in short_rows:
        grouped.setdefault(reason(row["id"]), []).append(row["id"])
    return list(grouped.items())
