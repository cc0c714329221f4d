"""Another lock in place of a lock (``--lock OBJECT.FIELD=mcs``): every library lock, unlock and trylock on the word becomes that of the
other kind, and the struct makes room for a word of another size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from cohsim.workload import syntax as s
from cohsim.workload.compiled import FieldRef
from cohsim.workload.emit import Address, Emitter
from cohsim.workload.layout import Layouter, StructLayout, check_overlaps, round_up
from cohsim.workload.program import Program, suggest

KINDS = ("tas", "ttas", "ticket", "mcs", "queued")
OPERATIONS = ("lock", "trylock", "unlock")
REPLACEABLE = ("spin", *KINDS)
ENTRIES = {f"{kind}_{operation}": operation for kind in REPLACEABLE for operation in OPERATIONS}
"""Library entries of spinlocks -> what they do; the first parameter is the lock word."""

WORD_BYTES = {("ticket", "x86"): 2, ("ticket", "power"): 4, ("queued", "x86"): 4, ("queued", "power"): 4, ("mcs", "x86"): 8, ("mcs", "power"): 8}
SMALLEST, LARGEST = 1, 4  # of the words of tas and ttas, which fit any size
NODE_STRUCT = "mcs_node"


@dataclass
class Choice:
    """One ``--lock`` option."""

    option: str
    owner: str  # object or struct
    field: str  # "" for an object of plain bytes
    kind: str
    word_bytes: int = 0
    used: bool = False

    def means(self, program: Program, at: Address) -> bool:
        """Whether ``at`` lies on this lock word."""
        if at.object is None or at.ref is None:
            return False
        struct = program.objects[at.object].struct
        if not self.field:
            return at.object == self.owner and at.offset == 0
        return at.ref.field == self.field and self.owner in (at.object, struct)


@dataclass
class Locks:
    """The lock choices of a compilation. Problems are reported through the program."""

    program: Program
    structs: dict[str, StructLayout] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)
    _rows: list[tuple[int, int]] = field(default_factory=list)  # micro-ops of replaced entries

    @classmethod
    def parse(cls, program: Program, layouter: Layouter, options: Sequence[str]) -> Locks:
        """Read the options and make room in the layouts."""
        result = cls(program, layouter.structs)
        for option in options:
            choice = result._parse(option, layouter)
            if choice is not None:
                result.choices.append(choice)
                result._make_room(choice, layouter)
        return result

    def _parse(self, option: str, layouter: Layouter) -> Choice | None:
        program = self.program
        match = re.fullmatch(r"(\w+)(?:\.([\w.\[\]]+))?=(\w+)", option.strip())
        if match is None:
            program.problem("--lock", f"{option!r} is not understood", "write OBJECT.FIELD=KIND or STRUCT.FIELD=KIND")
            return None
        owner, name, kind = match[1], match[2] or "", match[3]
        if kind not in KINDS:
            program.problem("--lock", f"{option!r}: unknown lock {kind!r}", suggest(kind, KINDS))
            return None
        node = program.objects.get(owner)
        layout = layouter.structs.get(node.struct or "" if node is not None else owner)
        if node is None and layout is None:
            program.problem("--lock", f"{option!r}: unknown object or struct {owner!r}", suggest(owner, [*program.objects, *layouter.structs]))
            return None
        if layout is not None and name not in layout.fields:
            program.problem("--lock", f"{option!r}: struct {layout.name} has no field {name!r}", suggest(name, layout.fields))
            return None
        if layout is None and name:
            program.problem("--lock", f"{option!r}: object {owner!r} is plain bytes", f"write {owner}={kind}")
            return None
        if any(c.owner == owner and c.field == name for c in self.choices):
            program.problem("--lock", f"{option!r}: this lock is replaced twice", "give one kind")
            return None
        return Choice(option, owner, name, kind)

    # ---- room
    def _make_room(self, choice: Choice, layouter: Layouter) -> None:
        """Let the field (and its access) have the size the lock needs."""
        program = self.program
        needed = WORD_BYTES.get((choice.kind, program.env.isa), 0)
        node = program.objects.get(choice.owner)
        if not choice.field:
            assert node is not None
            size = program.int(node.size or 0, node.pos)
            choice.word_bytes = needed or _word(size)
            if size < choice.word_bytes:
                program.objects[node.name] = replace(node, size=choice.word_bytes)
            return
        layout = layouter.structs[(node.struct or "") if node is not None else choice.owner]
        offset, size = layout.fields[choice.field]
        choice.word_bytes = needed or _word(size)
        if size >= choice.word_bytes and offset % choice.word_bytes == 0:
            return
        moved = self._ripple(choice, layout)
        if moved:
            names = ", ".join(f"{name} {old} -> {new}" for name, old, new in moved)
            program.assumptions.append(f"--lock {choice.option}: the word has {choice.word_bytes} bytes; struct {layout.name} makes room: {names}")

    def _ripple(self, choice: Choice, layout: StructLayout) -> list[tuple[str, int, int]]:
        """Enlarge the field and push the later ones up, as a compiler would lay them out; padding absorbs what it can."""
        start, size = layout.fields[choice.field]
        later = sorted((at, name) for name, (at, _) in layout.fields.items() if at > start)
        unions = [choice.field, *(name for _, name in later)]
        if any(name in layout.overlapping for name in unions) or any(at == start for n, (at, _) in layout.fields.items() if n != choice.field):
            self.program.problem(
                "--lock",
                f"{choice.option!r}: the word needs {choice.word_bytes} bytes, and struct {layout.name} has a union there or behind it",
                f"give it room first: --layout '{layout.name}.{choice.field}:own-line'",
            )
            return []
        new = round_up(start, choice.word_bytes)
        moved = [(choice.field, start, new)] if new != start else []
        layout.fields[choice.field] = (new, max(size, choice.word_bytes))
        end = new + max(size, choice.word_bytes)
        for at, name in later:
            width = layout.fields[name][1]
            natural = min(8, 1 << (width.bit_length() - 1))
            to = max(at, round_up(end, gcd(at, natural)))
            if to != at:
                moved.append((name, at, to))
            layout.fields[name] = (to, width)
            end = to + width
        layout.size = max(layout.size, round_up(end, 8))
        check_overlaps(self.program, layout, "--lock")
        return moved

    # ---- calls
    def substitute(self, node: s.Invoke, at: Address | None) -> tuple[s.Invoke, list[Address]]:
        """The call to make in place of ``node``, whose first argument is the address ``at``, and its arguments; the same call and no
        arguments where nothing is replaced.
        """
        operation = ENTRIES.get(node.name)
        if operation is None or at is None:
            return node, []
        if at.object is None:
            return self._by_pointer(node, operation, at)
        choice = next((c for c in self.choices if c.means(self.program, at)), None)
        if choice is None:
            return node, []
        choice.used = True
        ref = FieldRef(at.object, choice.field, at.offset, choice.word_bytes)
        word = Address(at.object, at.offset, choice.word_bytes, ref, at.areg, path=at.path)
        arguments = [word]
        if choice.kind == "mcs":
            arguments.append(self._node(at.object, choice.field, node.pos))
        return replace(node, name=f"{choice.kind}_{operation}", args=()), arguments

    def _by_pointer(self, node: s.Invoke, operation: str, at: Address) -> tuple[s.Invoke, list[Address]]:
        """The same for a lock that a pointer leads to: only its struct and field are known."""
        if at.path is None:
            note = f"--lock: the lock taken at {node.pos} by an address without a struct keeps its kind"
            if note not in self.program.assumptions:
                self.program.assumptions.append(note)
            return node, []
        struct, name = at.path
        for choice in self.choices:
            if choice.field != name:
                continue
            if choice.owner == struct:
                choice.used = True
                if choice.kind == "mcs":
                    what = f"{choice.option!r}: a pointer leads to the lock here, a CPU may hold two of them, and an MCS lock needs a node for each"
                    self.program.problem(node.pos, what, "use queued, whose node is free again once the lock is taken")
                word = Address(None, at.offset, choice.word_bytes, None, at.areg, path=at.path)
                return replace(node, name=f"{choice.kind}_{operation}", args=()), [word]
            owner = self.program.objects.get(choice.owner)
            if owner is not None and owner.struct == struct:
                what = f"{choice.option!r}: a pointer leads to a lock of struct {struct} here, of which object is not known"
                self.program.problem(node.pos, what, f"replace it in all objects: --lock {struct}.{name}={choice.kind}")
        return node, []

    def _node(self, owner: str, name: str, pos: s.Pos) -> Address:
        """The CPU's own node in the queue of one lock: a CPU may hold several locks at a time."""
        hidden = f"{NODE_STRUCT}({owner}.{name})" if name else f"{NODE_STRUCT}({owner})"
        if hidden not in self.program.objects:
            self.program.objects[hidden] = s.Object(pos, hidden, NODE_STRUCT, None, "per-cpu", {})
        return Address(hidden, 0, None, layout=self.structs[NODE_STRUCT])

    def emitted(self, start: int, end: int) -> None:
        """Rows ``start`` to ``end`` are those of a replaced entry."""
        self._rows.append((start, end))

    def check(self, emitter: Emitter) -> None:
        """After everything is emitted: each choice was used, and nothing but locks touches its word."""
        for choice in self.choices:
            if not choice.used:
                self.program.problem(
                    "--lock",
                    f"{choice.option!r}: no spinlock of the library is taken on it",
                    "spin, ticket, tas, ttas, mcs and queued locks can be replaced",
                )
        if not self.choices:
            return
        inside = {row for start, end in self._rows for row in range(start, end)}
        for number, row in enumerate(emitter.rows):
            if row.field < 0 or row.object is None or number in inside:
                continue
            at = Address(row.object, row.offset, row.size, emitter.fields[row.field])
            touched = next((c for c in self.choices if c.used and c.means(self.program, at)), None)
            if touched is not None:
                self.program.problem(
                    row.pos or "--lock",
                    f"the word of {touched.option!r} is also used without the lock functions",
                    "its values mean something else in another lock; leave --lock out",
                )


def _word(size: int) -> int:
    """Size of a tas or ttas word in a field of ``size`` bytes: the largest access of at most LARGEST bytes that fits."""
    return max(SMALLEST, min(LARGEST, 1 << (max(1, size).bit_length() - 1)))
