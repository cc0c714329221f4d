"""Kernel atomics and barriers to micro-operations, and the gathering of their updates per CPU (``:batch``)."""

from __future__ import annotations

from cohsim.workload import syntax as s
from cohsim.workload.compiled import FieldRef
from cohsim.workload.emit import Address
from cohsim.workload.lower import GATHERED, PRIMITIVES, lower_gathered, lower_primitive
from cohsim.workload.operands import Frame
from cohsim.workload.statements import Statements


class PrimitiveStatements(Statements):
    """Primitives by name: what an instruction set makes of them is in ``lower.py``."""

    batches: dict[tuple[str, str], int]  # (struct or "", field) -> updates that a CPU gathers
    gathered: set[tuple[str, str]]  # those that the workload updates

    def primitive(self, node: s.Invoke, frame: Frame) -> None:
        count, returns = PRIMITIVES[node.name]
        if len(node.args) != count + 1:
            raise self.o.bad(
                node.pos,
                f"{node.name} takes an address and {count} value(s), not {len(node.args)} operand(s)",
                "see docs/workload-language.md",
            )
        if node.dst and not returns:
            raise self.o.bad(
                node.pos,
                f"{node.name} has no result",
                f"use {node.name}_return" if node.name + "_return" in PRIMITIVES else "drop 'r ='",
            )
        at = self.o.sized(frame, node.args[0], atomic=True)
        values = [self.o.value(frame, v) for v in node.args[1:]]
        if node.name.endswith("_bit"):
            bit = values[0][0]
            if bit.reg >= 0 or not 0 <= bit.imm < 8 * (at.size or 8):
                raise self.o.bad(
                    node.pos, f"bit number outside 0..{8 * (at.size or 8) - 1}", "a bit number is a constant inside the word"
                )
        dst = self.optional_target(frame, node.dst, node.pos)
        batch = self.batch_of(at)
        if batch:
            own = self.gathering_word(node, at)
            lower_gathered(self.e, self.low, node.name, at, own, [v for v, _ in values], batch)
        else:
            lower_primitive(self.e, self.low, node.name, at, [v for v, _ in values], dst)
        self.e.release(*(temp for _, temp in values))

    def batch_of(self, at: Address) -> int:
        """How many updates of this word a CPU gathers; 0: each is made at once."""
        if not self.batches or at.object is None or at.ref is None:
            return 0
        key = self.program.objects[at.object].struct or "", at.ref.field
        if key in self.batches:
            self.gathered.add(key)
        return self.batches.get(key, 0)

    def gathering_word(self, node: s.Invoke, at: Address) -> Address:
        """The word in which a CPU gathers updates of ``at``. Raises Bad for an operation that needs the value."""
        assert at.object is not None and at.ref is not None
        if node.dst is not None or node.name.removesuffix("_return") not in GATHERED:
            raise self.o.bad(
                node.pos, f"{node.name} needs the value of {at.object}.{at.ref.field}, so updates cannot be gathered per CPU", "leave :batch out"
            )
        hidden = f"batch({at.object}.{at.ref.field})"
        if hidden not in self.program.objects:
            self.program.objects[hidden] = s.Object(node.pos, hidden, None, 8, "per-cpu", {})
        return Address(hidden, 0, 8, FieldRef(hidden, "", 0, 8))

    def check_batches(self) -> None:
        """After everything is emitted: each :batch was used."""
        for key in self.batches.keys() - self.gathered:
            what = f"{'.'.join(key)}:batch: no atomic of the workload updates it"
            self.program.problem("--layout", what, "name a field that is updated by atomic_…")
