# SPDX-License-Identifier: Apache-2.0
"""The words of the suite: a case is measured once a round; a row compares the case of ndbroker with others."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """One measurement. `tool` is a function of tools.py, `arguments` are its arguments."""
    name: str
    unit: str  # "us", "GB/s", "/s", "KiB" or "MiB"
    tool: str
    arguments: tuple = ()
    mtu: int = 0       # Of the loopback interface; 0: unchanged.
    once: bool = False  # Too long, or too steady, for every round.


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table. The ratio is `ours` / `against`, which is "floor", a label of `rivals`, or "limit"."""
    id: str
    what: str
    ours: Case
    must: float  # The ratio at which the row stops being a defect,
    goal: float  # and the ratio that it should reach.
    floor: Case = None
    rivals: dict = dataclasses.field(default_factory=dict)
    against: str = "floor"
    limit: float = None

    @property
    def less_is_better(self):
        return self.ours.unit not in ("GB/s", "/s")

    def reference(self):
        return self.floor if self.against == "floor" else self.rivals.get(self.against)

    def cases(self):
        """In this order, so that those that are compared run next to each other."""
        return [case for case in (self.floor, self.ours, *self.rivals.values()) if case is not None]


class CaseFailed(Exception):
    """A measurement that gave no figure. The text says why."""
