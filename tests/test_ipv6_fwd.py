"""workloads/ipv6_fwd.trace against the facts it is written from (kernel_paths.md 1.3 to 1.6), read off the compiled micro-ops."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cohsim.uops import Alu, Cond, Fence, Flag, Op, Slot
from cohsim.workload import load_workload
from cohsim.workload.compiled import CompiledWorkload

TRACE = Path(__file__).parent.parent / "workloads" / "ipv6_fwd.trace"
VARIANTS = ("percpu_route", "rcu_table", "jiffy_lastuse", "queue_trans_start", "multiple_tables", "table_offset0")
LINE = 64
MEMORY = (Op.LOAD, Op.STORE, Op.RMW, Op.LL, Op.SC)
WRITES = (Op.STORE, Op.RMW, Op.SC)


@dataclass(frozen=True)
class Step:
    """One micro-op of the uncontended path of one packet."""

    op: Op
    function: str
    object: str = ""
    scope: str = ""
    offset: int = 0
    size: int = 0
    instructions: int = 1
    fence: int = -1
    start: int = 0               # byte of its line where the object begins

    @property
    def line(self) -> tuple[str, int]:
        """The object and which of the lines it lies in."""
        return self.object, (self.start + self.offset) // LINE


@cache
def compiled(variants: tuple[str, ...] = (), cpus: int = 24, isa: str = "power") -> CompiledWorkload:
    return load_workload(str(TRACE), isa=isa, cpus=cpus, variants=variants)


@cache
def path(variants: tuple[str, ...] = (), isa: str = "power") -> tuple[Step, ...]:
    """The micro-ops of CPU 0 from PACKET to DONE when every branch goes as predicted: what runs when nobody else is there."""
    workload = compiled(variants, isa=isa)
    steps: list[Step] = []
    at, started = int(workload.entry[0]), False
    for _ in range(20_000):
        row = workload.uops[at]
        op = Op(row["op"])
        if op == Op.DONE:
            assert started, "the path ends before a packet came"
            return tuple(steps)
        if op == Op.PACKET:
            started = True
        elif op not in (Op.ENTER, Op.PAUSE):
            steps.append(step(workload, row, op))
        taken = op == Op.BR and (row["fn"] == Cond.ALWAYS or row["flags"] & Flag.PRED_TAKEN)
        at = int(row["target"]) if taken else at + 1
    pytest.fail("the path does not end")


def step(workload: CompiledWorkload, row: np.void, op: Op) -> Step:
    function = workload.func_names[row["func"]]
    if op in MEMORY:
        base = int(row["base"])
        for item in workload.objects:
            if item.base <= base < item.base + item.size_bytes:
                return Step(op, function, item.name, item.scope, base - item.base, int(row["size"]), start=item.base % LINE)
        pytest.fail(f"line {row['line_no']}: address {base:#x} is in no object")
    if op == Op.WORK:
        return Step(op, function, instructions=int(row["imm"]))
    return Step(op, function, fence=int(row["imm"]) if op == Op.FENCE else -1)


def contended_lines(steps: tuple[Step, ...]) -> set[tuple[str, int]]:
    """Lines of shared objects that the path writes."""
    return {s.line for s in steps if s.op in WRITES and s.scope in ("shared", "per-flow")}


def is_shared(s: Step) -> bool:
    return s.scope in ("shared", "per-flow")


def field(s: Step) -> str:
    """Name of the contended field at a step."""
    names = {("route", 128): "__refcnt", ("route", 132): "__use", ("route", 136): "lastuse", ("route", 144): "rt6_next",
             ("route_pcpu", 128): "pcpu __refcnt", ("table", 20): "tb6_lock", ("egress", 768): "_tx",
             ("egress", 780): "real_num_tx_queues", ("egress", 824): "trans_start",
             **{(o, 168 + i): f"{p}gateway" for o, p in (("route", ""), ("route_pcpu", "pcpu ")) for i in (0, 4, 8, 12)},
             **{("table", o): "root" for o in (32, 40, 56)}}
    return names.get((s.object, s.offset), f"{s.object}+{s.offset}")


def interesting(s: Step) -> bool:
    """Accesses that table 1.5 prints in bold, wherever a variant may have moved them."""
    ranges = {"route": (128, 192), "route_pcpu": (128, 192), "table": (0, 96), "egress": (768, 832)}
    low, high = ranges.get(s.object, (0, 0))
    return low <= s.offset < high


def events(steps: tuple[Step, ...]) -> list[tuple[str, str, str]]:
    """(function, operation, field) of the interesting accesses and of the fences of the functions that have them."""
    functions = {s.function for s in steps if interesting(s) and s.op in (Op.LL, Op.RMW)}
    found = []
    for s in steps:
        if s.op in MEMORY and interesting(s):
            found.append((s.function, s.op.name, field(s)))
        elif s.op == Op.FENCE and s.function in functions:
            found.append((s.function, "FENCE", Fence(s.fence).name))
    return found


def fully(function: str, *pairs: str) -> list[tuple[str, str, str]]:
    """Events of one function, each written "OPERATION what"."""
    return [(function, *pair.split()) for pair in pairs]  # type: ignore[misc]


# kernel_paths.md 1.5, rows 5, 6, 9, 11, 12, 13, 14, 19, 21, 24, 27, with the Power sequences of 1.4 (Linux 3.12)
READ_LOCK = fully("_raw_read_lock_bh", "LL tb6_lock", "SC tb6_lock", "FENCE INSTR")
ROOT = fully("fib6_lookup", *["LOAD root"] * 3)
NEXT = fully("ip6_pol_route", "LOAD rt6_next")
HOLD = fully("ip6_pol_route", "LL __refcnt", "SC __refcnt")
READ_UNLOCK = fully("_raw_read_unlock_bh", "FENCE LIGHT", "LL tb6_lock", "SC tb6_lock")
USE = fully("ip6_pol_route", "LOAD __use", "STORE lastuse", "STORE __use")
CHECK_USE = fully("ip6_pol_route", "LOAD lastuse")
GATEWAY = fully("ip6_finish_output2", *["LOAD gateway"] * 4)
TXQ = fully("netdev_pick_tx", "LOAD real_num_tx_queues", "LOAD _tx")
RELEASE = fully("dst_release", "FENCE LIGHT", "LL __refcnt", "SC __refcnt", "FENCE FULL")
TRANS_START = fully("dpa_tx", "STORE trans_start")
FULL = READ_LOCK + ROOT + NEXT + HOLD + READ_UNLOCK + USE + GATEWAY + TXQ + RELEASE + TRANS_START


def on_pcpu(part: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [(f, op, name if op == "FENCE" else f"pcpu {name}") for f, op, name in part]


PCPU_HOLD, PCPU_GATEWAY, PCPU_RELEASE = on_pcpu(HOLD), on_pcpu(GATEWAY), on_pcpu(RELEASE)
LADDER = ("percpu_route", "rcu_table", "jiffy_lastuse", "queue_trans_start")


def test_contended_accesses_in_the_order_of_the_table():
    assert events(path()) == FULL


@pytest.mark.parametrize(("variants", "expected"), [
    (LADDER[:1], READ_LOCK + ROOT + NEXT + PCPU_HOLD + READ_UNLOCK + USE + PCPU_GATEWAY + TXQ + PCPU_RELEASE + TRANS_START),
    (LADDER[:2], ROOT + NEXT + PCPU_HOLD + USE + PCPU_GATEWAY + TXQ + PCPU_RELEASE + TRANS_START),
    (LADDER[:3], ROOT + NEXT + PCPU_HOLD + CHECK_USE + PCPU_GATEWAY + TXQ + PCPU_RELEASE + TRANS_START),
    (LADDER, ROOT + NEXT + PCPU_HOLD + CHECK_USE + PCPU_GATEWAY + TXQ + PCPU_RELEASE),
    (("rcu_table",), ROOT + NEXT + HOLD + USE + GATEWAY + TXQ + RELEASE + TRANS_START),
    (("jiffy_lastuse",), READ_LOCK + ROOT + NEXT + HOLD + READ_UNLOCK + CHECK_USE + GATEWAY + TXQ + RELEASE + TRANS_START),
    (("queue_trans_start",), READ_LOCK + ROOT + NEXT + HOLD + READ_UNLOCK + USE + GATEWAY + TXQ + RELEASE),
    (("table_offset0",), FULL),
], ids=lambda v: "+".join(v) if isinstance(v, tuple) else "")
def test_variants_remove_exactly_what_the_kernels_did(variants, expected):
    assert events(path(variants)) == expected


def test_the_end_of_the_ladder_writes_no_line_that_others_use():
    assert contended_lines(path(LADDER)) == set()


def test_only_the_three_contended_lines_are_written():
    """rt6_info 128..191, the line of tb6_lock, net_device 768..831: nothing else that another CPU could want."""
    assert contended_lines(path()) == {("route", 2), ("table", 0), ("egress", 12)}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_leave_private_traffic_alone(variant):
    """A variant moves or drops shared accesses; stack, packet and statistics traffic of every other function stays the same."""
    lock = {"_raw_read_lock_bh", "_raw_read_unlock_bh", "local_bh_disable", "local_bh_enable"}
    search = {"ip6_pol_route", "fib6_lookup", "rt6_score_route", "dst_release", "fib_rules_lookup", "fib6_rule_match"}
    dropped = {"rcu_table": lock, "multiple_tables": lock | search}.get(variant, set())
    moved = {"route_pcpu", "txq"} if variant in ("percpu_route", "queue_trans_start") else set()

    def private(steps):
        return Counter((s.function, s.op, s.object, s.offset) for s in steps
                       if s.op in MEMORY and not is_shared(s) and s.object not in moved and s.function not in dropped)
    assert private(path((variant,))) == private(path())


def test_jiffy_variant_drops_the_load_of_use_and_both_stores():
    def shared(variants):
        return Counter((s.op, s.object, s.offset) for s in path(variants) if s.op in MEMORY and is_shared(s))
    before, after = shared(()), shared(("jiffy_lastuse",))
    assert before - after == Counter({(Op.LOAD, "route", 132): 1, (Op.STORE, "route", 132): 1, (Op.STORE, "route", 136): 1})
    assert after - before == Counter({(Op.LOAD, "route", 136): 1})


def test_percpu_variant_reads_the_copy_after_the_lookup_and_the_pointer_to_it():
    steps = path(("percpu_route",))
    lookup = {"ip6_pol_route", "fib6_lookup", "rt6_score_route"}
    assert {s.function for s in steps if s.object == "route"} == lookup
    assert [(s.op, s.function) for s in steps if (s.object, s.offset) == ("route", 336)] == [(Op.LOAD, "ip6_pol_route")]
    on_copy = Counter((s.op, s.offset) for s in steps if s.object == "route_pcpu")
    base = Counter((s.op, s.offset) for s in path() if s.object == "route" and
                   (s.function not in lookup or s.op in (Op.LL, Op.SC)))
    assert on_copy == base


def test_multiple_tables_adds_the_local_table_pass():
    steps = path(("multiple_tables",))
    locks = ("_raw_read_lock_bh", "_raw_read_unlock_bh")
    pairs = [(s.object, s.op) for s in steps if s.op in (Op.LL, Op.SC) and s.function in locks]
    assert pairs == [(t, op) for t in ("local_table", "table") for op in (Op.LL, Op.SC, Op.LL, Op.SC)]
    null = [(s.function, s.op, s.offset) for s in steps if s.object == "null_entry" and 128 <= s.offset < 192]
    search = [(Op.LOAD, 144), (Op.LL, 128), (Op.SC, 128), (Op.LOAD, 132), (Op.STORE, 136), (Op.STORE, 132)]
    assert null == [("ip6_pol_route", *at) for at in search] + [("dst_release", Op.LL, 128), ("dst_release", Op.SC, 128)]
    assert events(steps)[-len(FULL) + len(READ_LOCK):] == FULL[len(READ_LOCK):], "the main table's pass is unchanged"
    assert contended_lines(steps) == contended_lines(path()) | {("local_table", 0), ("null_entry", 2)}


# ---- amounts ------------------------------------------------------------------------------------------------------------------

def test_totals_per_packet():
    steps = path()
    loads = [s for s in steps if s.op == Op.LOAD]
    contended = contended_lines(steps)
    assert 2100 <= sum(s.instructions for s in steps) <= 2350, "about 2200 instructions"
    assert 570 <= sum(not is_shared(s) for s in loads) <= 630, "about 600 private loads"
    assert 285 <= sum(s.op == Op.STORE and not is_shared(s) for s in steps) <= 320, "about 300 private stores"
    read_only = [s for s in loads if is_shared(s) and s.line not in contended and field(s) != "root"]
    assert 75 <= len(read_only) <= 95, "rows 1 to 26 of the table (its prose says about 75)"


def test_instructions_between_contended_accesses():
    """The '~instr before' column, added up between contended accesses; 30 % is the uncertainty of the counts themselves."""
    steps = path()
    marks = [i for i, s in enumerate(steps) if s.op in MEMORY and interesting(s)]
    gaps = []                                 # before the first access of each group: its others follow within three instructions
    end = 0
    for i in marks:
        before = sum(s.instructions for s in steps[end:i] if s.op in (Op.WORK, *MEMORY))
        if i == marks[0] or before > 3:
            gaps.append((field(steps[i]), steps[i].function, before))
        end = i + 1
    expected = [("tb6_lock", "_raw_read_lock_bh", 845), ("root", "fib6_lookup", 5), ("rt6_next", "ip6_pol_route", 102),
                ("__refcnt", "ip6_pol_route", 28), ("tb6_lock", "_raw_read_unlock_bh", 8), ("__use", "ip6_pol_route", 20),
                ("gateway", "ip6_finish_output2", 434), ("real_num_tx_queues", "netdev_pick_tx", 145),
                ("__refcnt", "dst_release", 268), ("trans_start", "dpa_tx", 339)]
    assert [(name, function) for name, function, _ in gaps] == [(name, function) for name, function, _ in expected]
    for (name, function, found), (_, _, fact) in zip(gaps, expected, strict=True):
        assert abs(found - fact) <= max(4, 0.3 * fact), f"{found} instructions before {name} in {function}, the table has {fact}"


@pytest.mark.parametrize(("function", "fact"), [
    ("ip6_pol_route", 160), ("fib6_lookup", 47), ("rt6_score_route", 18), ("ip6_route_input", 75), ("fib6_rule_lookup", 18),
    ("ip6_rcv_finish", 35), ("ipv6_rcv", 170), ("__netif_receive_skb_core", 150), ("netif_receive_skb", 25),
    ("eth_type_trans", 45),
    ("ip6_forward", 230), ("ip6_mtu", 20), ("ip6_output", 35), ("ip6_finish_output2", 115), ("dev_queue_xmit", 120),
    ("netdev_pick_tx", 30), ("sch_direct_xmit", 60), ("dev_hard_start_xmit", 70), ("local_bh_disable", 24),
    ("local_bh_enable", 50),
])
def test_instructions_of_each_function(function, fact):
    """kernel_paths.md 1.6, executed instructions, +-30 % (local_bh_* run twice); atomics and locks belong to their callers."""
    found = sum(s.instructions for s in path() if s.function == function)
    assert abs(found - fact) <= max(4, 0.3 * fact)


def test_driver_estimates():
    steps = path()
    rx = {"qman_p_poll_dqrr", "priv_rx_default_dqrr", "_dpa_rx", "contig_fd_to_skb"}
    tx = {"dpa_tx", "skb_to_contig_fd", "skb_recycle", "qman_enqueue"}
    assert sum(s.instructions for s in steps if s.function in rx) == pytest.approx(305, rel=0.05)
    assert sum(s.instructions for s in steps if s.function in tx) == pytest.approx(335, rel=0.05)


def test_packet_lines_that_migrate():
    """sk_buff 4 lines, shared info 1, back pointer 1; frame and annotation are stashed, hence per CPU (kernel_paths.md 1.5)."""
    lines = {s.line for s in path() if s.scope == "per-packet"}
    assert lines == {("skb", 0), ("skb", 1), ("skb", 2), ("skb", 3), ("shinfo", 0), ("skb_pointer", 0)}
    assert {s.line for s in path() if s.object in ("frame", "annotation")} == {("frame", 0), ("frame", 1), ("annotation", 0)}
    stored = {s.line for s in path() if s.scope == "per-packet" and s.op == Op.STORE}
    assert stored == lines, "each of them is dirty when it moves on"
    cleared = Counter(s.object for s in path() if s.scope == "per-packet" and s.op == Op.STORE and s.function == "skb_recycle")
    assert cleared["skb"] == 22, "memset of sk_buff up to tail, 176 bytes"


def test_pool_and_source():
    workload = compiled()
    source = workload.source
    assert source is not None
    assert source.rate_pps == pytest.approx(10e9 / (98 * 8), rel=1e-6)
    assert (source.frame_bytes, source.overhead_bytes, source.link_bps, source.flows) == (78, 20, 10e9, 1)
    assert source.pool > 24 * source.ring, "rings cannot hold every buffer"
    assert np.allclose(sorted(source.weights), sorted([6 / 128] * 8 + [5 / 128] * 16))
    per_packet = [o for o in workload.objects if o.scope == "per-packet"]
    assert {o.instances for o in per_packet} == {source.pool}


# ---- layout -------------------------------------------------------------------------------------------------------------------

def placed(name: str, variants: tuple[str, ...] = ()) -> tuple[int, int]:
    item = next(o for o in compiled(variants).objects if o.name == name)
    return item.base, item.size_bytes


def test_layouts():
    sizes = {"route": 384, "table": 96, "node1": 48, "skb": 208, "shinfo": 320}
    for name, size in sizes.items():
        assert placed(name)[1] == size, name
    assert placed("route")[0] % LINE == placed("egress")[0] % LINE == placed("skb")[0] % LINE == 0


def test_table_offset():
    """At 32 mod 64 the lock is alone with tb6_id and the parent pointer; at 0 it meets left, right, leaf and fn_bit."""
    for variants, offset, together in (((), 32, False), (("table_offset0",), 0, True)):
        base, _ = placed("table", variants)
        assert base % LINE == offset
        lines = {name: (base + at) // LINE for name, at in (("lock", 20), ("left", 32), ("right", 40), ("fn_bit", 56))}
        assert (lines["lock"] == lines["left"] == lines["right"] == lines["fn_bit"]) is together
        assert (lines["lock"] != lines["left"]) is not together


def test_refcount_starts_at_one_and_private_objects_are_per_cpu():
    workload = compiled()
    base, _ = placed("route")
    assert (base + 128, 4, 1) in [tuple(m) for m in workload.memory]
    uops = workload.uops
    for name in ("stack", "txq", "qdisc", "mib"):
        item = next(o for o in workload.objects if o.name == name)
        inside = (uops["base"] >= item.base) & (uops["base"] < item.base + item.size_bytes) & np.isin(uops["op"], MEMORY)
        assert inside.any() and (uops["slot"][inside] == Slot.CPU).all(), name


@pytest.mark.parametrize("variants", [(), VARIANTS], ids=["plain", "all"])
def test_compiles_for_x86(variants):
    """One indivisible operation for each atomic there; which instructions they are is the business of the lowering's tests."""
    workload = compiled(variants, isa="x86")
    uops = workload.uops
    held = next(o for o in workload.objects if o.name == ("route_pcpu" if "percpu_route" in variants else "route"))
    functions = [workload.func_names[u["func"]] for u in uops[(uops["op"] == Op.RMW) & (uops["base"] == held.base + 128)]]
    assert functions == ["ip6_pol_route", "dst_release"]
    assert not np.isin(uops["op"], (Op.LL, Op.SC)).any()


def test_rmw_of_the_reference_count_adds_and_subtracts_one():
    uops = compiled().uops
    base, _ = placed("route")
    after = [uops[i + 1] for i in np.flatnonzero((uops["op"] == Op.LL) & (uops["base"] == base + 128))]
    assert [(int(u["op"]), int(u["fn"]), int(u["imm"])) for u in after] in (
        [(Op.ALU, Alu.ADD, 1), (Op.ALU, Alu.SUB, 1)], [(Op.ALU, Alu.ADD, 1), (Op.ALU, Alu.ADD, -1)])


@pytest.mark.parametrize("cpus", [1, 5, 6, 16])
def test_few_cpus_warm_up_longer(cpus):
    """The warm-up has to hand out all buffers once, or packet lines would come from memory instead of another CPU's cache."""
    assert compiled(cpus=cpus).warmup_ns == (2_500_000 if cpus <= 5 else 500_000)
