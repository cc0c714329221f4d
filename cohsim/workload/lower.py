"""Portable atomics, bit operations and barriers as the instructions of each instruction set.

Sources: Linux arch/x86/include/asm/{atomic,bitops,barrier}.h; arch/powerpc/include/asm/{atomic,bitops,synch,barrier}.h. The
eras of the Power barriers: before 3.2 lwsync/isync, 3.2 to 4.3 lwsync/sync (Herrenschmidt 2011), from 4.4 sync/sync (commit
49e9cf3f0c04). Counting rule: one ALU, BR, FENCE or memory micro-op is one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cohsim.errors import Problem, WorkloadError
from cohsim.uops import Alu, Cond, Fence, Op
from cohsim.workload.emit import Address, Emitter, Operand

FENCES = {"full": Fence.FULL, "light": Fence.LIGHT, "instr": Fence.INSTR, "load": Fence.LOAD, "store": Fence.STORE}
FUNCTIONS = {"add": Alu.ADD, "sub": Alu.SUB, "and": Alu.AND, "or": Alu.OR, "xor": Alu.XOR, "xchg": Alu.XCHG}


def mask(value: int, size: int | None) -> int:
    """Constants are compared with zero-extended words."""
    return value & ((1 << 8 * (size or 8)) - 1)


class Lowering(Protocol):
    """What an instruction set has to say."""

    name: str

    def rmw(self, e: Emitter, fn: Alu, at: Address, value: Operand, dst: int) -> None:
        """Indivisible read-modify-write without ordering of its own; ``dst`` takes the old value (-1: dropped)."""

    def cas(self, e: Emitter, at: Address, expected: Operand, new: Operand, dst: int) -> None:
        """Compare and swap without ordering of its own; ``dst`` takes the value found."""

    def before(self, e: Emitter) -> None:
        """Ordering before a value-returning atomic."""

    def after(self, e: Emitter) -> None:
        """Ordering after a value-returning atomic."""

    def returning(self, e: Emitter, fn: Alu, at: Address, value: Operand, dst: int, old: int) -> None:
        """``dst`` = new value, ``old`` = old value, fully ordered."""

    def barrier(self, e: Emitter, name: str) -> None:
        """smp_mb, smp_rmb, smp_wmb, acquire, release."""


class X86:
    """``lock`` prefixed instructions are full barriers (TSO); smp_rmb and smp_wmb only stop the compiler."""

    name = "x86"

    def __init__(self, kernel: tuple[int, ...]):
        self.kernel = kernel

    def rmw(self, e: Emitter, fn: Alu, at: Address, value: Operand, dst: int) -> None:
        e.memory(Op.RMW, at, fn=fn, value=value, dst=dst)

    def cas(self, e: Emitter, at: Address, expected: Operand, new: Operand, dst: int) -> None:
        compared_by_memory(e, at, expected, new, dst)

    def before(self, e: Emitter) -> None:
        pass

    after = before

    def returning(self, e: Emitter, fn: Alu, at: Address, value: Operand, dst: int, old: int) -> None:
        e.work(1)  # mov $value,%reg
        e.memory(Op.RMW, at, fn=fn, value=value, dst=old)  # lock xadd
        e.alu(fn, dst, old, value)

    def barrier(self, e: Emitter, name: str) -> None:
        if name == "smp_mb":
            e.fence(Fence.FULL)


class Power:
    """lwarx/stwcx. loops; the retry branch is predicted not taken."""

    name = "power"

    def __init__(self, kernel: tuple[int, ...]):
        self.kernel = kernel

    def rmw(self, e: Emitter, fn: Alu, at: Address, value: Operand, dst: int) -> None:
        old = e.register() if dst < 0 else dst
        new = e.register()
        self._loop(e, fn, at, value, old, new)
        e.release(new, old if dst < 0 else -1)

    def _loop(self, e: Emitter, fn: Alu, at: Address, value: Operand, old: int, new: int) -> None:
        ok = e.register()
        retry = e.label()
        e.bind(retry)
        e.memory(Op.LL, at, dst=old)
        if fn != Alu.XCHG:
            e.alu(fn, new, old, value)
            value = Operand(0, new)
        e.memory(Op.SC, at, value=value, dst=ok)
        e.branch(Cond.EQ, ok, Operand(0), retry)
        e.release(ok)

    def cas(self, e: Emitter, at: Address, expected: Operand, new: Operand, dst: int) -> None:
        old = e.register() if dst < 0 else dst
        ok = e.register()
        retry, differs = e.label(), e.label()
        e.bind(retry)
        e.memory(Op.LL, at, dst=old)
        e.work(1)  # cmpw
        e.branch(Cond.NE, old, Operand(mask(expected.imm, at.size)) if expected.reg < 0 else expected, differs)
        e.memory(Op.SC, at, value=new, dst=ok)
        e.branch(Cond.EQ, ok, Operand(0), retry)
        e.bind(differs)
        e.release(ok, old if dst < 0 else -1)

    def before(self, e: Emitter) -> None:
        e.fence(Fence.FULL if self.kernel >= (4, 4) else Fence.LIGHT)

    def after(self, e: Emitter) -> None:
        e.fence(Fence.FULL if self.kernel >= (3, 2) else Fence.INSTR)

    def returning(self, e: Emitter, fn: Alu, at: Address, value: Operand, dst: int, old: int) -> None:
        self.before(e)
        self._loop(e, fn, at, value, old, dst)
        self.after(e)

    def barrier(self, e: Emitter, name: str) -> None:
        e.fence(
            {
                "smp_mb": Fence.FULL,
                "smp_rmb": Fence.LIGHT,
                "smp_wmb": Fence.LIGHT,
                "acquire": Fence.INSTR,
                "release": Fence.LIGHT,
            }[name]
        )


class PowerFar(Power):
    """One instruction that the cluster's L2 performs, in place of a lwarx/stwcx. loop: `lwat`/`stwat` of Power ISA 3.0. Ordering is the same."""

    def rmw(self, e: Emitter, fn: Alu, at: Address, value: Operand, dst: int) -> None:
        e.memory(Op.RMW, at, fn=fn, value=value, dst=dst)

    def cas(self, e: Emitter, at: Address, expected: Operand, new: Operand, dst: int) -> None:
        compared_by_memory(e, at, expected, new, dst)

    def returning(self, e: Emitter, fn: Alu, at: Address, value: Operand, dst: int, old: int) -> None:
        self.before(e)
        e.memory(Op.RMW, at, fn=fn, value=value, dst=old)
        e.alu(fn, dst, old, value)
        self.after(e)


def compared_by_memory(e: Emitter, at: Address, expected: Operand, new: Operand, dst: int) -> None:
    """A compare-and-swap that is one instruction, with the expected value in a register."""
    register = expected.reg
    if expected.imm or register < 0:  # mov $expected,%eax
        register = e.register()
        e.move(register, Operand(mask(expected.imm, at.size), expected.reg) if expected.reg < 0 else expected)
    e.memory(Op.RMW, at, fn=Alu.CAS, value=new, a=register, dst=dst)
    if register != expected.reg:
        e.release(register)


FAR, LLSC = "far", "llsc"


def parse_isa_options(isa: str, options: Sequence[str]) -> str:
    """Choices that an instruction set leaves to the compiler, ``atomics=far`` or ``atomics=llsc``; returns who performs atomics ("" for the
    instruction set's own way). Raises WorkloadError.
    """
    problems = []
    for option in options:
        key, _, value = option.partition("=")
        if key.strip() != "atomics" or value.strip() not in (FAR, LLSC):
            problems.append(Problem("--isa", f"{option!r} is not known", f"write atomics={FAR} or atomics={LLSC}"))
        elif isa == "x86":
            what = "no atomics that another agent performs" if value.strip() == FAR else "no load-linked / store-conditional"
            problems.append(Problem("--isa", f"{option}: x86 has {what}: an atomic is one locked instruction", "leave --isa out"))
    if len({option.partition("=")[2].strip() for option in options}) > 1 and not problems:
        problems.append(Problem("--isa", f"{' and '.join(options)} contradict each other", "give one of them"))
    if problems:
        raise WorkloadError(problems)
    return options[0].partition("=")[2].strip() if options else ""


def lowering(isa: str, kernel: tuple[int, ...], atomics: str = "") -> Lowering:
    """The lowering of an instruction set; ``atomics`` as :func:`parse_isa_options` returns it. Raises KeyError for an unknown one."""
    classes: dict[str, type[X86] | type[Power]] = {"x86": X86, "power": PowerFar if atomics == FAR else Power}
    return classes[isa](kernel)


BARRIERS = frozenset({"smp_mb", "smp_rmb", "smp_wmb", "acquire", "release"})
# name -> (operands after the address, returns a value)
PRIMITIVES: dict[str, tuple[int, bool]] = {
    "atomic_inc": (0, False),
    "atomic_dec": (0, False),
    "atomic_add": (1, False),
    "atomic_sub": (1, False),
    "atomic_inc_return": (0, True),
    "atomic_dec_return": (0, True),
    "atomic_add_return": (1, True),
    "atomic_sub_return": (1, True),
    "atomic_dec_and_test": (0, True),
    "cmpxchg": (2, True),
    "xchg": (1, True),
    "set_bit": (1, False),
    "clear_bit": (1, False),
    "test_and_set_bit": (1, True),
    "test_and_clear_bit": (1, True),
}


def lower_primitive(e: Emitter, low: Lowering, name: str, at: Address, operands: list[Operand], dst: int) -> None:
    """Emit portable primitive ``name``; ``dst`` is -1 where the result is dropped."""
    e.prim = e.primitive(name)
    fn = Alu.SUB if "dec" in name or "sub" in name else Alu.ADD
    amount = operands[0] if name in ("atomic_add", "atomic_sub", "atomic_add_return", "atomic_sub_return") else Operand(1)
    if name in ("atomic_inc", "atomic_dec", "atomic_add", "atomic_sub"):
        low.rmw(e, fn, at, amount, -1)
    elif name.endswith("_return"):
        new, old = (e.register() if dst < 0 else dst), e.register()
        low.returning(e, fn, at, amount, new, old)
        e.release(old, new if dst < 0 else -1)
    elif name == "atomic_dec_and_test":
        _dec_and_test(e, low, at, dst)
    elif name == "cmpxchg":
        low.before(e)
        low.cas(e, at, operands[0], operands[1], dst)
        low.after(e)
    elif name == "xchg":
        low.before(e)
        low.rmw(e, Alu.XCHG, at, operands[0], dst)
        low.after(e)
    else:
        _bit(e, low, name, at, operands[0].imm, dst)
    e.prim = -1


GATHERED = ("atomic_inc", "atomic_dec", "atomic_add", "atomic_sub")
"""Updates that can be gathered per CPU, alone or as ``…_return`` with the result dropped."""


def lower_gathered(e: Emitter, low: Lowering, name: str, at: Address, own: Address, operands: list[Operand], batch: int) -> None:
    """Emit an update that is added to the CPU's ``own`` word, which goes to ``at`` when it reaches ``batch`` either way, as percpu_counter does:
    nothing is ordered by it.
    """
    e.prim = e.primitive(name)
    sum_, test, after = e.register(), e.register(), e.label()
    e.memory(Op.LOAD, own, dst=sum_)
    e.alu(Alu.SUB if "dec" in name or "sub" in name else Alu.ADD, sum_, sum_, operands[0] if operands else Operand(1))
    e.memory(Op.STORE, own, value=Operand(0, sum_))
    e.alu(Alu.ADD, test, sum_, Operand(batch - 1))  # -batch < sum < batch: sum + batch - 1 is below 2 batch - 1, unsigned
    if e.compare_costs:
        e.work(1)
    e.branch(Cond.LTU, test, Operand(2 * batch - 1), after, taken=True)
    e.memory(Op.STORE, own)
    low.rmw(e, Alu.ADD, at, Operand(0, sum_), -1)
    e.bind(after)
    e.release(sum_, test)
    e.prim = -1


def _dec_and_test(e: Emitter, low: Lowering, at: Address, dst: int) -> None:
    """1 if the new value is 0: ``sete; movzx`` or ``cntlzw; srwi`` after the decrement, here arithmetic on the old value."""
    old = e.register() if dst < 0 else dst
    low.before(e)
    low.rmw(e, Alu.SUB, at, Operand(1), old)
    low.after(e)
    if dst >= 0 and at.size == 8:  # the arithmetic below needs a spare bit
        done = e.label()
        e.alu(Alu.XOR, dst, old, Operand(1))
        e.branch(Cond.EQ, dst, Operand(0), done)
        e.move(dst, Operand(1))
        e.bind(done)
        e.alu(Alu.XOR, dst, dst, Operand(1))
    elif dst >= 0:
        e.alu(Alu.XOR, dst, old, Operand(1))  # 0 if the old value was 1
        e.alu(Alu.SUB, dst, dst, Operand(1))  # negative only then
        e.alu(Alu.SHR, dst, dst, Operand(63))
    else:
        e.release(old)


def _bit(e: Emitter, low: Lowering, name: str, at: Address, bit: int, dst: int) -> None:
    value = 1 << bit
    fn, operand = (Alu.AND, Operand(~value)) if "clear" in name else (Alu.OR, Operand(value if bit < 63 else -(1 << 63)))
    if not name.startswith("test"):
        low.rmw(e, fn, at, operand, -1)
        return
    low.before(e)
    low.rmw(e, fn, at, operand, dst)
    low.after(e)
    if dst >= 0:
        e.alu(Alu.AND, dst, dst, Operand(value if bit < 63 else -(1 << 63)))
