# SPDX-License-Identifier: Apache-2.0
"""What the profiles show between ndbroker and the goals, by the beginning of a row's name."""

SMALL = ("no single hot spot: checks of the posting and of the memory, two lines of the segment for each message (record "
         "and acknowledgement), and a completion for each message")
COPY = "cost of posting and completing a request, and windows that share the cache with the receiver"
SET_UP = "several calls between application and broker, each with a wake-up"
WIRE = "received data is checked in a staging buffer and copied from there; 0.4 us of the library between the receive and the send of a small message"
WAKE = "the calls that arm, look once more and read the doorbell, around one wake-up"

REASONS = {
    "S6": COPY, "S7": COPY, "S10": "a call of the kernel for each Write, or the target's thread must wake",
    "S11": COPY, "S": SMALL, "X": WIRE, "C4": "the loop of the broker waits with one call and receives with another",
    "C5": "with several callers a reader thread passes the answers on", "C": SET_UP, "W": WAKE,
    "N": "the counter of a quiet connection is one more cache line on its way, and the memory of many connections leaves the cache", "L": "the tables of the broker outgrow the cache",
    "M1": "three or four pages of the segment, and the objects of the connection",
    "M": "rows, history and their indexes; memory that a list has used is kept",
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
