"""Names and expressions of statements: registers, constants and addresses."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from cohsim.uops import Alu, Op
from cohsim.workload import syntax as s
from cohsim.workload.compiled import FieldRef
from cohsim.workload.emit import Address, Emitter, Operand
from cohsim.workload.layout import StructLayout
from cohsim.workload.program import Program, suggest

OPERATORS = {"*": Alu.MUL, "+": Alu.ADD, "-": Alu.SUB, "&": Alu.AND, "|": Alu.OR, "^": Alu.XOR, "<<": Alu.SHL, ">>": Alu.SHR}
SELF_POINTER = "ptr("  # hidden per-instance word holding the address of the instance
POINTER_TABLE = "ptrs("  # hidden shared table of the addresses of all instances


class Bad(Exception):
    """The statement is wrong and has been reported."""


@dataclass
class Loop:
    """Labels of ``continue`` and ``break`` in a loop; -1 while nothing jumps there."""

    again: int = -1
    end: int = -1


@dataclass
class Frame:
    """One inlined call: its names are its own."""

    name: str
    library: bool
    func: int
    bindings: dict[str, Address | Operand] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=dict)
    borrowed: set[str] = field(default_factory=set)  # registers that belong to the caller
    labels: dict[str, int] = field(default_factory=dict)
    end: int = -1  # label behind the body
    dst: int = -1  # register for the returned value
    nics: dict[str, str] = field(default_factory=dict)  # parameters that stand for a NIC
    loops: list[Loop] = field(default_factory=list)  # open ones, innermost last
    walk: dict[str, int] = field(default_factory=dict)  # next byte of `work … in RANGE`


class Operands:
    """Evaluates expressions in a frame. Reports through the program and raises Bad."""

    def __init__(self, program: Program, structs: dict[str, StructLayout], emitter: Emitter, queues: int = 1):
        self.program = program
        self.structs = structs
        self.e = emitter
        self.queues = queues  # of the NIC that has most
        self.pointers: dict[str, str] = {}  # hidden object -> object it points to
        # Addresses that are the same wherever the expression is inlined and its name means an object: id -> (expression, name, address).
        self._fixed: dict[int, tuple[s.Expr, str, Address]] = {}
        self._sizes: dict[str, int] = {}

    def bad(self, pos: s.Pos, what: str, remedy: str = "") -> Bad:
        self.program.problem(pos, what, remedy)
        return Bad()

    def object_layout(self, name: str) -> StructLayout | None:
        struct = self.program.objects[name].struct
        return self.structs.get(struct) if struct else None

    def object_size(self, name: str) -> int:
        size = self._sizes.get(name)
        if size is None:
            node = self.program.objects[name]
            layout = self.object_layout(name)
            size = self.program.int(node.size, node.pos) if node.size is not None else layout.size if layout else 8
            self._sizes[name] = size
        return size

    # ---- addresses
    def whole(self, name: str) -> Address:
        return Address(name, 0, None, None, layout=self.object_layout(name))

    def select(self, base: Address, path: str, pos: s.Pos) -> Address:
        """Field ``path`` of a whole object."""
        if base.ref is not None or (base.object is None and base.layout is None):
            raise self.bad(pos, f"a field cannot be taken of .{path} here", "take it of an object, or of a pointer: reg->STRUCT.FIELD")
        if base.layout is None:
            raise self.bad(
                pos,
                f"object {base.object!r} is plain bytes and has no field {path!r}",
                "write OBJECT+OFFSET:SIZE, or give it a struct",
            )
        if path not in base.layout.fields:
            raise self.bad(pos, f"struct {base.layout.name} has no field {path!r}", suggest(path, base.layout.fields))
        offset, size = base.layout.fields[path]
        return Address(
            base.object,
            base.offset + offset,
            size,
            FieldRef(base.object, path, base.offset + offset, size) if base.object else None,
            base.areg,
            path=(base.layout.name, path),
        )  # no layout: a field has no fields

    def size_of(self, name: str, pos: s.Pos) -> int:
        """Bytes of a struct, or of one instance of an object."""
        if name in self.structs:
            return self.structs[name].size
        if name in self.program.objects:
            return self.object_size(name)
        raise self.bad(pos, f"unknown struct or object {name!r}", suggest(name, [*self.structs, *self.program.objects]))

    def lookup(self, frame: Frame, name: str, pos: s.Pos) -> Address | Operand:
        """What a name means in a frame."""
        head, _, path = name.partition(".")
        found = frame.bindings.get(head)
        if found is None and head in frame.registers:
            found = Operand(0, frame.registers[head])
        if found is None and not path and head in self.program.params:
            found = Operand(self.program.int(head, pos))
        if found is None and head in self.program.objects:
            found = self.whole(head)
        if found is None and head in frame.nics:
            raise self.bad(pos, f"{head!r} is a nic, not a value", f"write to its registers: mmio {head}.REGISTER, QUEUE, VALUE")
        if found is None:
            known = [*frame.bindings, *frame.registers, *self.program.objects, *self.program.params]
            raise self.bad(
                pos,
                f"unknown object, register or param {head!r}",
                suggest(head, [k for k in known if k not in self.program.library or k == "this_cpu"]),
            )
        if path:
            if isinstance(found, Operand):
                raise self.bad(pos, f"{head!r} is a value, not an object", f"a pointer is written {head}->STRUCT.FIELD")
            return self.select(found, path, pos)
        return found

    def address(self, frame: Frame, e: s.Expr) -> Address:
        """Address named by an expression, size not yet required."""
        known = self._fixed.get(id(e))
        if known is not None and known[1] not in frame.bindings and known[1] not in frame.registers:
            return known[2]
        if isinstance(e.first, s.Deref):
            base = self.pointer(frame, e.first)
        elif isinstance(e.first, s.Arrow):
            base = self.arrow(frame, e.first, e.pos)
        elif isinstance(e.first, s.Ref):
            found = self.lookup(frame, e.first.name, e.pos)
            if isinstance(found, Operand):
                raise self.bad(
                    e.pos,
                    f"{e.first.name!r} is a value, not an address",
                    f"memory at the address in a register is written [{e.first.name}]:SIZE",
                )
            base = found
        else:
            raise self.bad(
                e.pos,
                "an address is expected",
                "write OBJECT.FIELD, OBJECT+OFFSET:SIZE, [register]:SIZE or register->STRUCT.FIELD",
            )
        offset, areg = base.offset, base.areg
        for op, atom in e.rest:
            value = self.atom(frame, atom, e.pos)
            if op not in ("+", "-") or (op == "-" and value.reg >= 0):
                raise self.bad(e.pos, f"operator {op!r} in an address", "an address is a base plus offsets")
            offset += -value.imm if op == "-" else value.imm
            if value.reg >= 0 and areg >= 0:
                raise self.bad(e.pos, "an address uses two registers", "add them in a statement of their own")
            areg = value.reg if value.reg >= 0 else areg
        size = self.program.int(e.size, e.pos) if e.size is not None else base.size if not e.rest or base.ref else None
        result = Address(base.object, offset, size, base.ref, areg, None if e.rest else base.layout, base.path if offset == base.offset else None)
        self.check_bounds(result, e)
        result = self.anonymous(result)
        if isinstance(e.first, s.Ref) and result.areg < 0 and all(isinstance(atom, (s.Num, s.SizeOf)) for _, atom in e.rest):
            name = e.first.name.partition(".")[0]
            if name not in frame.bindings and name not in frame.registers:
                self._fixed[id(e)] = e, name, result
        return result

    def check_bounds(self, a: Address, e: s.Expr) -> None:
        if a.size is not None and a.size <= 0:
            raise self.bad(e.pos, f"an access of {a.size} bytes", "a size is above 0")
        if a.object is None:
            return
        limit = self.object_size(a.object)
        if a.offset < 0 or a.offset + (a.size or 1) > limit:
            raise self.bad(
                e.pos,
                f"bytes {a.offset}..{a.offset + (a.size or 1) - 1} are outside object {a.object!r} of {limit} bytes",
                "check offset and size",
            )

    @staticmethod
    def anonymous(a: Address) -> Address:
        """Give a range without a field a name of its own for attribution."""
        if a.object is None or a.ref is not None or a.size is None:
            return a
        return Address(a.object, a.offset, a.size, FieldRef(a.object, "", a.offset, a.size), a.areg, a.layout)

    def pointer(self, frame: Frame, atom: s.Deref) -> Address:
        inner = atom.inner
        value = self.atom(frame, inner.first, inner.pos)
        offset = value.imm
        for op, extra in inner.rest:
            more = self.atom(frame, extra, inner.pos)
            if op not in ("+", "-") or more.reg >= 0:
                raise self.bad(inner.pos, "an address in brackets is a register plus constants", "write [reg+8]:8")
            offset += more.imm if op == "+" else -more.imm
        return Address(None, offset, None, None, value.reg)

    def arrow(self, frame: Frame, atom: s.Arrow, pos: s.Pos) -> Address:
        value = self.lookup(frame, atom.register, pos)
        if not isinstance(value, Operand) or value.reg < 0:
            raise self.bad(pos, f"{atom.register!r} is not a register with a pointer", "write REGISTER->STRUCT.FIELD")
        struct, _, path = atom.path.partition(".")
        layout = self.structs.get(struct)
        if layout is None:
            raise self.bad(pos, f"unknown struct {struct!r}", suggest(struct, self.structs))
        whole = Address(None, value.imm, None, None, value.reg, layout)
        return self.select(whole, path, pos) if path else whole

    def sized(self, frame: Frame, e: s.Expr, *, atomic: bool = False) -> Address:
        """Address of an access; its size must be known, and be one register wide where ``atomic``."""
        a = self.address(frame, e)
        if a.size is None:
            raise self.bad(e.pos, "the size of the access is not known", "write OBJECT+OFFSET:SIZE, or name a field")
        if atomic and a.size not in (1, 2, 4, 8):
            raise self.bad(e.pos, f"{a.size} bytes are not 1, 2, 4 or 8", "choose a part, as in X+0:4")
        return a

    # ---- values
    def atom(self, frame: Frame, atom: s.Atom, pos: s.Pos) -> Operand:
        """A constant or a register."""
        if isinstance(atom, s.Num):
            return Operand(atom.value)
        if isinstance(atom, s.SizeOf):
            return Operand(self.size_of(atom.name, pos))
        if isinstance(atom, s.Ref):
            found = self.lookup(frame, atom.name, pos)
            if isinstance(found, Operand):
                return found
            raise self.bad(
                pos,
                f"{atom.name!r} is an address where a value is expected",
                f"load it first: r = load {atom.name}; its address is addr {atom.name}",
            )
        raise self.bad(pos, "a register or a constant is expected", "use a statement of its own")

    def value(self, frame: Frame, e: s.Expr) -> tuple[Operand, int]:
        """(operand, register to release or -1); computes what is not a plain operand."""
        if e.size is not None:
            raise self.bad(e.pos, "a value has no access size", "load it first")
        if not e.rest and not isinstance(e.first, s.AddrOf):
            return self.atom(frame, e.first, e.pos), -1
        temp = self.e.register()
        self.compute(frame, e, temp)
        return Operand(0, temp), temp

    def compute(self, frame: Frame, e: s.Expr, dst: int) -> None:
        """``dst`` <- expression, one ALU instruction per operator; ``*`` binds closer, all others from left to right."""
        if e.size is not None:
            raise self.bad(e.pos, "a value has no access size", "write r = load ADDR")
        groups: list[tuple[str, list[s.Atom]]] = [("", [e.first])]
        for op, atom in e.rest:
            if op == "*":
                groups[-1][1].append(atom)
            else:
                groups.append((op, [atom]))
        if len(groups) == 1 and len(groups[0][1]) > 1:
            self.product(frame, groups[0][1], e.pos, dst)
            return
        if isinstance(e.first, s.AddrOf):
            if len(groups[0][1]) > 1:
                raise self.bad(e.pos, "an address times something", "multiply first, then add the address")
            left, temps = Operand(), list[int]()
        else:
            left, temps = self.term(frame, groups[0][1], e.pos)
        right = []
        for op, atoms in groups[1:]:
            value, more = self.term(frame, atoms, e.pos)
            right.append((op, value))
            temps += more
        self.chain(frame, e, left, right, dst)
        self.e.release(*temps)

    def chain(self, frame: Frame, e: s.Expr, left: Operand, right: list[tuple[str, Operand]], dst: int) -> None:
        """dst <- left op right op …; what is still to be read is not overwritten."""
        starts_in_place = isinstance(e.first, s.AddrOf) or left.reg < 0 or bool(left.imm)
        later = right if starts_in_place else right[1:]
        partial = self.e.register() if any(value.reg == dst for _, value in later) else dst
        if isinstance(e.first, s.AddrOf):
            self.take_address(frame, e.first, e.pos, partial)
            left = Operand(0, partial)
        elif not right:
            if left.reg != dst:
                self.e.move(dst, left)
        elif starts_in_place:
            self.e.move(partial, left)
            left = Operand(0, partial)
        for i, (op, value) in enumerate(right):
            to = dst if i == len(right) - 1 else partial
            self.e.alu(OPERATORS[op], to, left.reg, value)
            left = Operand(0, to)
        if partial != dst:
            self.e.release(partial)

    def term(self, frame: Frame, atoms: list[s.Atom], pos: s.Pos) -> tuple[Operand, list[int]]:
        """Value of an atom or a product, and the registers to release."""
        if len(atoms) == 1:
            return self.atom(frame, atoms[0], pos), []
        values = [self.atom(frame, atom, pos) for atom in atoms]
        if all(v.reg < 0 for v in values):
            return Operand(prod(v.imm for v in values)), []
        temp = self.e.register()
        self.product(frame, atoms, pos, temp)
        return Operand(0, temp), [temp]

    def product(self, frame: Frame, atoms: list[s.Atom], pos: s.Pos, dst: int) -> None:
        """dst <- product; its constants are multiplied here, by two and its powers with a shift."""
        values = [self.atom(frame, atom, pos) for atom in atoms]
        factor = prod(v.imm for v in values if v.reg < 0)
        registers = [v.reg for v in values if v.reg >= 0]
        if not registers:
            self.e.move(dst, Operand(factor))
            return
        partial = self.e.register() if dst in registers[1:] and len(registers) > 2 else dst
        left = registers[0]
        for i, other in enumerate(registers[1:], 2):
            to = dst if i == len(registers) else partial
            self.e.alu(Alu.MUL, to, left, Operand(0, other))
            left = to
        if partial != dst:
            self.e.release(partial)
        if factor != 1 or len(registers) == 1:
            self.e.scale(dst, left, factor)

    def take_address(self, frame: Frame, atom: s.AddrOf, pos: s.Pos, dst: int) -> None:
        """Address of this CPU's (packet's, …) instance: a constant, or loaded from memory as kernels load a per-CPU offset."""
        if atom.arrow is not None:
            found: Address | Operand = self.arrow(frame, s.Arrow(atom.name, atom.arrow), pos)
        else:
            found = self.lookup(frame, atom.name, pos)
        if isinstance(found, Operand):
            raise self.bad(pos, f"{atom.name!r} is a value", "take the address of an object")
        if atom.index is not None:
            self.indexed_address(frame, atom, found, pos, dst)
        elif found.object is not None and found.areg == dst:
            base = self.e.register()
            self.take_base(found, pos, base)
            self.e.move(dst, Operand(0, base))
            self.e.release(base)
        else:
            self.take_base(found, pos, dst)

    def add_constant(self, dst: int, register: int, constant: int) -> None:
        if constant or register < 0:
            self.e.alu(Alu.ADD, dst, register, Operand(constant))
        elif dst != register:
            self.e.move(dst, Operand(0, register))

    def instance_address(self, at: Address, pos: s.Pos, dst: int) -> None:
        """Address of ``at`` without its register."""
        assert at.object is not None
        scope = self.program.objects[at.object].scope
        if scope == "shared":
            self.e.add(Op.ALU, fn=Alu.XCHG, dst=dst, object=at.object, offset=at.offset, takes_address=True)
            return
        hidden = f"{SELF_POINTER}{at.object})"
        self.hidden_object(hidden, at.object, scope, 8, pos)
        self.e.memory(Op.LOAD, Address(hidden, 0, 8, FieldRef(hidden, "", 0, 8)), dst=dst)
        if at.offset:
            self.e.alu(Alu.ADD, dst, dst, Operand(at.offset))

    def indexed_address(self, frame: Frame, atom: s.AddrOf, found: Address, pos: s.Pos, dst: int) -> None:
        """``addr OBJECT[reg]``: the instance whose number is in a register; ``addr OBJECT[reg * SCALE]``: an element of this instance."""
        index = self.lookup(frame, atom.index or "", pos)
        if not isinstance(index, Operand):
            raise self.bad(pos, f"{atom.index!r} is an address", "the index of addr OBJECT[reg] is a register")
        if index.reg < 0 and atom.scale is None:
            raise self.bad(pos, f"{atom.index!r} is not a register", "the index of addr OBJECT[reg] is a register")
        if atom.scale is not None:
            self.element_address(atom, found, index, pos, dst)
            return
        if found.object is None or found.areg >= 0:
            raise self.bad(pos, f"{atom.name!r} is not an object with instances", "write addr NAME[reg * SIZE], or name an object")
        scope = self.program.objects[found.object].scope
        if scope == "shared":
            raise self.bad(
                pos,
                f"object {found.object!r} is shared: it has one instance",
                f"an element of it is written addr {found.object}[{atom.index} * SIZE]",
            )
        if scope in ("per-cpu", "per-queue"):
            self.from_table(found, index.reg, pos, dst)
            return
        row = self.e.add(Op.ALU, fn=Alu.MUL, dst=dst, a=index.reg, object=found.object)
        row.takes_stride = True
        self.e.add(Op.ALU, fn=Alu.ADD, dst=dst, a=dst, object=found.object, offset=found.offset, takes_address=True)

    def from_table(self, found: Address, index: int, pos: s.Pos, dst: int) -> None:
        """Address of an instance through a table of pointers, as ``per_cpu_ptr`` finds it."""
        assert found.object is not None
        hidden = f"{POINTER_TABLE}{found.object})"
        instances = max(self.program.env.cpus, self.queues if self.program.objects[found.object].scope == "per-queue" else 1)
        self.hidden_object(hidden, found.object, "shared", 8 * instances, pos)
        temp = self.e.register()
        self.e.alu(Alu.SHL, temp, index, Operand(3))
        self.e.memory(Op.LOAD, Address(hidden, 0, 8, FieldRef(hidden, "", 0, 8 * instances), temp), dst=dst)
        self.e.release(temp)
        if found.offset:
            self.e.alu(Alu.ADD, dst, dst, Operand(found.offset))

    def element_address(self, atom: s.AddrOf, found: Address, index: Operand, pos: s.Pos, dst: int) -> None:
        """Base of this instance plus register times constant."""
        scale = self.size_of(atom.scale.name, pos) if isinstance(atom.scale, s.SizeOf) else self.program.int(atom.scale or 1, pos)
        if scale <= 0:
            raise self.bad(pos, f"elements of {scale} bytes", "give a size above 0")
        if index.reg < 0:
            at = Address(found.object, found.offset + index.imm * scale, None, None, found.areg)
            if at.object is not None and not 0 <= at.offset < self.object_size(at.object):
                raise self.bad(pos, f"byte {at.offset} is outside object {at.object!r}", "check index and size")
            self.take_base(at, pos, dst)
            return
        offset = self.e.register()
        self.e.scale(offset, index.reg, scale)
        if found.object is not None and found.areg < 0 and self.program.objects[found.object].scope == "shared":
            self.e.add(Op.ALU, fn=Alu.ADD, dst=dst, a=offset, object=found.object, offset=found.offset, takes_address=True)
        else:
            base = self.e.register()
            self.take_base(found, pos, base)
            self.e.alu(Alu.ADD, dst, base, Operand(0, offset))
            self.e.release(base)
        self.e.release(offset)

    def take_base(self, at: Address, pos: s.Pos, dst: int) -> None:
        """Address of a place in an object or at a pointer."""
        if at.object is None:
            self.add_constant(dst, at.areg, at.offset)
            return
        self.instance_address(at, pos, dst)
        if at.areg >= 0:
            self.e.alu(Alu.ADD, dst, dst, Operand(0, at.areg))

    def hidden_object(self, hidden: str, target: str, scope: str, size: int, pos: s.Pos) -> None:
        if hidden not in self.program.objects:
            options = (
                {"pool": self.program.objects[target].options["pool"]} if "pool" in self.program.objects[target].options else {}
            )
            self.program.objects[hidden] = s.Object(pos, hidden, None, size, scope, options)
        self.pointers[hidden] = target
