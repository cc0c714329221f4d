"""What the core records of lines that move: who took them from whom, whose store ended whose reservation, how long accesses took, the event log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from program import LINE, Program, X, at, machine, once, run, tiny, workload
from random_programs import random_programs, tiny_machine
from tree_workloads import MACHINES

from cohsim.machine.compiled import CompiledMachine
from cohsim.results.rundata import (
    LATENCY_BINS,
    LINE_STATS,
    LOG_COLUMNS,
    LOG_KINDS,
    PAIR_CPU_KILL,
    PAIR_CPU_TAKE,
    PAIR_KILL,
    PAIR_TAKE,
    SERVED,
    RunData,
)
from cohsim.simulate import simulate
from cohsim.uops import Alu, Op, Slot

T1, T2, T3, T4 = (us * 1_000_000_000 for us in (1, 2, 3, 4))
FAR = 8  # a CPU of another cluster of the T4240; 0 and 1 are siblings, 2 shares their L2

Pair = tuple[int, int, int, int]


def simulated(m: CompiledMachine, programs: Sequence[Program], **options: object) -> tuple[RunData, np.ndarray]:
    """The run, and the first micro-op of each CPU."""
    w = workload(m, programs)
    return simulate(m, w, check=True, **options), w.entry  # type: ignore[arg-type]


def pairs(d: RunData, kind: int, line: int = X) -> dict[tuple[int, int], tuple[int, int]]:
    """(first, second) -> (count, fs) of one kind on one line."""
    chosen = d.pairs[(d.pairs[:, 0] == kind) & (d.pairs[:, 1] == line)]
    return {(int(r[2]), int(r[3])): (int(r[4]), int(r[5])) for r in chosen}


def takes(d: RunData, level: str, line: int = X) -> dict[tuple[int, int], tuple[int, int]]:
    return pairs(d, PAIR_TAKE + SERVED.index(level), line)


def cpu_takes(d: RunData, line: int = X) -> dict[tuple[int, int], tuple[int, int]]:
    return pairs(d, PAIR_CPU_TAKE, line)


def take_kinds(d: RunData) -> set[int]:
    return set(d.pairs[(d.pairs[:, 0] < PAIR_KILL), 0].tolist())


@pytest.fixture
def i7() -> CompiledMachine:
    """Without the prefetcher, which takes lines of its own."""
    return tiny(machine("corei7"), l2_adjacent_line=False)


@pytest.fixture
def t4240() -> CompiledMachine:
    return machine("t4240")


def remote_fs(m: CompiledMachine, dirty: bool) -> int:
    """A private cache asks the home, another core answers."""
    snoop = 2 * m.hop_fs + m.snoop_fs + (m.snoop_dirty_fs if dirty else 0)
    return m.l2_hit_fs + m.hop_fs + m.home_lookup_fs + snoop + m.hop_fs + m.line_transfer_fs


# ---- takes between private caches


def test_a_store_after_another_cores_store_is_one_take(i7: CompiledMachine) -> None:
    """CPU 1 stores after CPU 0 stored: exactly one take, by CPU 1's store from CPU 0's, with the latency of a modified remote line."""
    d, entry = simulated(i7, [once(T1, "store"), once(T2, "store")])
    assert takes(d, "remote_dirty") == {(entry[1] + 1, entry[0] + 1): (1, remote_fs(i7, dirty=True))}
    assert cpu_takes(d) == {(1, 0): (1, remote_fs(i7, dirty=True))}
    assert len(d.pairs) == 2 and d.pairs_lost == 0


def test_a_load_of_what_another_core_loaded_takes_a_clean_line(i7: CompiledMachine) -> None:
    d, entry = simulated(i7, [once(T1, "load"), once(T2, "load")])
    assert takes(d, "remote_clean") == {(entry[1] + 1, entry[0] + 1): (1, remote_fs(i7, dirty=False))}


def test_a_prefetch_takes_a_line_that_nobody_waits_for(i7: CompiledMachine) -> None:
    """CPU 0 wrote both lines of a pair; CPU 1's load of the first fetches the second too: no instruction of it, no cycles."""
    owner = at(T1)
    owner.store(X)
    store = owner.store(X + LINE)
    owner.halt()
    d, entry = simulated(tiny(i7, l2_adjacent_line=True), [owner, once(T2, "load")])
    assert list(takes(d, "remote_dirty")) == [(entry[1] + 1, entry[0] + 1)]
    assert takes(d, "remote_dirty", X + LINE) == {(-1, entry[0] + store): (1, 0)}
    assert cpu_takes(d, X + LINE) == {(1, 0): (1, 0)}


def test_hits_and_memory_are_no_takes(i7: CompiledMachine) -> None:
    p = at(T1)
    for _ in range(3):
        p.store(X)
        p.load(X)
    p.halt()
    d, _ = simulated(i7, [p])
    assert len(d.pairs) == 0


def test_the_holder_is_who_wrote_last_not_who_fetched(i7: CompiledMachine) -> None:
    """CPU 0 fetches the line with a load and then writes another word of it: the taker takes it from the store."""
    p = at(T1)
    p.load(X)
    p.store(X + 8)
    p.halt()
    d, entry = simulated(i7, [p, once(T2, "load")])
    assert takes(d, "remote_dirty") == {(entry[1] + 1, entry[0] + 2): (1, remote_fs(i7, dirty=True))}


@pytest.mark.parametrize("order", [(T1, T2), (T2, T1)])
def test_an_upgrade_takes_the_line_from_the_copy_that_goes(i7: CompiledMachine, order: tuple[int, int]) -> None:
    """Two cores read, one of them writes: its own copy needs no data, only the other's to go."""
    writer = at(order[0])
    writer.load(X)
    writer.fence()
    writer.work((T3 - order[0]) // i7.issue_fs)
    store = writer.store(X)
    writer.halt()
    d, entry = simulated(i7, [writer, once(order[1], "load")])
    upgrade = i7.l2_hit_fs + i7.hop_fs + i7.home_lookup_fs + 2 * i7.hop_fs + i7.snoop_fs + i7.hop_fs
    assert takes(d, "upgrade") == {(entry[0] + store, entry[1] + 1): (1, upgrade)}
    assert sum(count for count, _ in cpu_takes(d).values()) == 2       # one of the two loads, and the upgrade


def test_a_write_takes_the_line_though_the_l3_has_the_data(i7: CompiledMachine) -> None:
    """CPUs 0 and 1 read it (the L3 has it too), CPU 2 writes without a copy: their copies go, the last one is the holder."""
    d, entry = simulated(i7, [once(T1, "load"), once(T2, "load"), once(T3, "store")], pin=(0, 1, 2))
    found = {key: count for level in SERVED for key, (count, _) in takes(d, level).items() if key[0] == entry[2] + 1}
    assert sum(found.values()) == 1 and {key[1] for key in found} <= {entry[0] + 1, entry[1] + 1}


def test_a_take_knows_the_bytes_of_both_accesses(i7: CompiledMachine) -> None:
    """First byte in the line and size; of pairs by CPU nothing is known."""
    d, _ = simulated(i7, [once(T1, "store", address=X + 8, size=4), once(T2, "store", address=X + 48, size=8)])
    assert d.pairs[:, 6:].tolist() == [[48, 8, 8, 4], [-1, 0, -1, 0]]


def test_one_micro_op_with_a_pointer_takes_different_bytes(i7: CompiledMachine) -> None:
    """CPU 1 stores through a register: first to X + 16, then to X + 1 line + 32."""
    p = at(T2)
    p.alu(2, -1, 16, fn=Alu.XCHG)
    body = p.add(Op.STORE, base=X, size=8, imm=1, areg=2)
    p.fence()
    p.alu(2, 2, LINE + 16)
    p.counted_loop(3, 2, body)
    p.halt()
    first = at(T1)
    first.store(X, size=1)
    first.store(X + LINE + 32, size=2)
    first.halt()
    d, entry = simulated(i7, [first, p])
    chosen = d.pairs[(d.pairs[:, 0] < PAIR_KILL) & (d.pairs[:, 2] == entry[1] + body)]
    assert chosen[:, [1, 6, 7, 8, 9]].tolist() == [[X, 16, 8, 0, 1], [X + LINE, 32, 8, 32, 2]]


# ---- takes in and between clusters


def test_a_load_takes_the_line_from_another_core_of_its_cluster(t4240: CompiledMachine) -> None:
    d, entry = simulated(t4240, [once(T1, "store"), once(T2, "load")], pin=(0, 2))
    assert takes(d, "cluster") == {(entry[1] + 1, entry[0] + 1): (1, t4240.l2_hit_fs)}
    assert cpu_takes(d) == {(1, 0): (1, t4240.l2_hit_fs)}


def test_a_sibling_takes_the_line_at_the_clusters_l2(t4240: CompiledMachine) -> None:
    d, entry = simulated(t4240, [once(T1, "store"), once(T2, "ll", dst=2)], pin=(0, 1))
    assert takes(d, "l2") == {(entry[1] + 1, entry[0] + 1): (1, t4240.l2_hit_fs)}
    assert take_kinds(d) == {PAIR_TAKE + SERVED.index("l2")}


def test_a_store_waits_for_the_l1_copy_of_a_reader(t4240: CompiledMachine) -> None:
    """CPU 2 brings the line in alone, so it is writable; CPU 0's store must only send the copy in CPU 2's L1 away."""
    d, entry = simulated(t4240, [once(T2, "store"), once(T1, "load")], pin=(0, 2))
    hold = max(t4240.l2_store_line_fs, t4240.l1_invalidate_fs, 2 * t4240.l2_hop_fs)
    assert takes(d, "upgrade") == {(entry[0] + 1, entry[1] + 1): (1, 2 * t4240.l2_hop_fs + hold)}
    assert take_kinds(d) == {PAIR_TAKE + SERVED.index("upgrade")}


def test_the_reader_whose_copy_goes_is_unknown_if_the_writer_read_after_it(t4240: CompiledMachine) -> None:
    writer = at(T2)
    writer.load(X)
    writer.fence()
    store = writer.store(X)
    writer.halt()
    d, entry = simulated(t4240, [writer, once(T1, "load")], pin=(0, 2))
    assert list(takes(d, "upgrade")) == [(entry[0] + store, -1)]
    assert list(cpu_takes(d)) == [(0, -1)]


def test_another_cluster_takes_a_modified_line(t4240: CompiledMachine) -> None:
    d, entry = simulated(t4240, [once(T1, "store"), once(T2, "load")], pin=(0, FAR))
    snoop = 2 * t4240.hop_fs + t4240.snoop_fs + t4240.snoop_dirty_fs
    took = t4240.l2_hit_fs + t4240.hop_fs + t4240.home_lookup_fs + snoop + t4240.hop_fs + t4240.line_transfer_fs
    assert takes(d, "remote_dirty") == {(entry[1] + 1, entry[0] + 1): (1, took)}


# ---- lost reservations


@pytest.mark.parametrize("pin", [(0, 2), (0, 1), (0, FAR)], ids=["cluster", "sibling", "remote"])
def test_a_store_ends_the_reservation_of_another_thread(t4240: CompiledMachine, pin: tuple[int, int]) -> None:
    holder = at(T1)
    ll = holder.ll(X)
    holder.fence()
    holder.work((T3 - T1) // t4240.issue_fs)
    sc = holder.sc(X)
    holder.halt()
    d, entry = simulated(t4240, [holder, once(T2, "store")], pin=pin)
    assert pairs(d, PAIR_KILL) == {(entry[1] + 1, entry[0] + ll): (1, 0)}
    assert pairs(d, PAIR_CPU_KILL) == {(1, 0): (1, 0)}
    assert d.sc_failures[0, entry[0] + sc] == 1


def test_a_threads_own_store_does_not_end_its_reservation(t4240: CompiledMachine) -> None:
    p = at(T1)
    p.ll(X)
    p.fence()
    p.store(X + 8)
    p.sc(X)
    p.halt()
    d, _ = simulated(t4240, [p])
    assert not pairs(d, PAIR_KILL) and d.sc_failures.sum() == 0


def test_an_eviction_ends_a_reservation_and_nobody_is_to_blame(t4240: CompiledMachine) -> None:
    m = tiny(t4240, l2_sets=1, l2_ways=2)
    p = at(T1)
    ll = p.ll(X)
    p.fence()
    for i in (1, 2):
        p.load(X + i * LINE)
        p.fence()
    p.halt()
    d, entry = simulated(m, [p])
    assert pairs(d, PAIR_KILL) == {(-1, entry[0] + ll): (1, 0)}


def test_a_line_brought_in_for_a_store_conditional_that_fails_has_moved_too(t4240: CompiledMachine) -> None:
    """The reservation goes while the SC's request waits at the home: the line comes all the same, from the CPU that stored."""
    for seed in range(40):
        programs = random_programs(seed, t4240.isa, cpus=6, lines=2)
        d, _ = simulated(t4240, programs, pin=(0, 1, 2, FAR, FAR + 2, 16))
        assert moved(d) == far(d), seed


def moved(d: RunData) -> int:
    return int(sum(r[4] for r in d.pairs if r[0] in [PAIR_TAKE + SERVED.index(level) for level in ("remote_clean", "remote_dirty")]))


def far(d: RunData) -> int:
    return int(d.line_stats[:, LINE_STATS.index("transfers_far")].sum())


@pytest.mark.parametrize("name", MACHINES)
def test_takes_add_up_to_the_lines_that_moved(name: str) -> None:
    """Programs that end, measured as a whole: every transfer has its taker; pairs by micro-op and by CPU agree."""
    m = tiny_machine(name)
    total = 0
    for seed in range(20):
        cpus = 2 + seed % 7
        d = simulate(m, workload(m, random_programs(seed, m.isa, cpus=cpus, lines=4)), pin=tuple(i * 5 % len(m.cpu_core) for i in range(cpus)))
        assert d.stop == "finished" and d.pairs_lost == 0
        assert moved(d) == far(d), seed
        near = d.pairs[d.pairs[:, 0] == PAIR_TAKE + SERVED.index("cluster")][:, 4].sum()
        assert near == d.line_stats[:, LINE_STATS.index("transfers_near")].sum(), seed
        by_uop, by_cpu = d.pairs[d.pairs[:, 0] < PAIR_KILL], d.pairs[d.pairs[:, 0] == PAIR_CPU_TAKE]
        assert by_uop[:, 4:6].sum(axis=0).tolist() == by_cpu[:, 4:6].sum(axis=0).tolist(), seed
        assert d.pairs[d.pairs[:, 0] == PAIR_KILL][:, 4].sum() == d.pairs[d.pairs[:, 0] == PAIR_CPU_KILL][:, 4].sum(), seed
        total += far(d)
    assert total > 100


# ---- bounds, instances, window


@pytest.mark.parametrize("lookahead", [True, False])
def test_a_full_table_counts_what_it_cannot_hold(i7: CompiledMachine, lookahead: bool) -> None:
    """Each take adds two rows (micro-ops, CPUs) to the 256 of the taker's node, of which three quarters may be used: 96 takes, then all is lost."""
    lines, issued = 150, []
    for t in (T1, T4):
        p = at(t)
        for i in range(lines):
            p.store(X + i * LINE)
            p.fence()
        p.halt()
        issued.append(p)
    r = run(i7, issued, lookahead=lookahead, pair_table=1024)
    assert r.sim.pairs_lost == 2 * (lines - 96)
    kept = r.arrays["pairs"].reshape(-1, r.arrays["pairs"].shape[2])
    assert sorted((row[0] >> 8) * LINE for row in kept if row[0] & 0xFF == PAIR_CPU_TAKE) == [X + i * LINE for i in range(96)]


def test_instances_that_lie_alike_count_as_the_line_of_the_first(i7: CompiledMachine) -> None:
    by_instance = at(T2)
    by_instance.add(Op.STORE, base=X, size=8, imm=1, stride=4 * LINE, slot=Slot.CPU)     # CPU 1: X + 4 lines
    by_instance.halt()
    d, _ = simulated(i7, [once(T1, "store", address=X + 4 * LINE), by_instance])
    assert list(cpu_takes(d, X)) == [(1, 0)] and not cpu_takes(d, X + 4 * LINE)
    by_instance.ops[1]["stride"], by_instance.ops[1]["base"] = 40, X + 4 * LINE - 40     # not a multiple of the line: each line for itself
    d, _ = simulated(i7, [once(T1, "store", address=X + 4 * LINE), by_instance])
    assert list(cpu_takes(d, X + 4 * LINE)) == [(1, 0)]


def test_takes_of_the_warm_up_do_not_count(i7: CompiledMachine) -> None:
    programs = [once(T1, "store"), once(T2, "store"), once(T3, "store")]
    d, _ = simulated(i7, programs, pin=(0, 1, 2), warmup_ns=2_500.0)
    assert list(cpu_takes(d)) == [(2, 1)]


# ---- latency


def test_latency_of_a_micro_op_is_summed_with_its_maximum_and_bin(i7: CompiledMachine) -> None:
    """CPU 1 stores twice in one micro-op's loop: once for a modified remote line, then a hit, which does not count."""
    p = at(T2)
    body = p.store(X)
    p.fence()
    p.counted_loop(3, 2, body)
    p.halt()
    d, entry = simulated(i7, [once(T1, "store"), p])
    assert d.uop_latency is not None and d.uop_latency.shape[1] == 2 + LATENCY_BINS
    row, took = d.uop_latency[entry[1] + body], remote_fs(i7, dirty=True)
    assert row[:2].tolist() == [took, took]
    bin_ = int(np.log2(took / i7.core_period_fs))
    assert row[2:].tolist() == [int(b == bin_) for b in range(LATENCY_BINS)]


@pytest.mark.parametrize("name", MACHINES)
def test_latency_covers_exactly_what_neither_l1_nor_store_buffer_served(name: str) -> None:
    m = tiny_machine(name)
    d = simulate(m, workload(m, random_programs(3, m.isa, cpus=4, lines=4)))
    assert d.uop_latency is not None
    assert d.uop_latency[:, 2:].sum(axis=1).tolist() == d.served.sum(axis=0)[:, SERVED.index("l2") :].sum(axis=1).tolist()
    assert (d.uop_latency[:, 1] <= d.uop_latency[:, 0]).all() and d.uop_latency[:, 0].any()


# ---- the event log


def log(d: RunData) -> list[dict[str, int | str]]:
    assert d.log is not None
    return [dict(zip(LOG_COLUMNS, row, strict=True)) | {"kind": LOG_KINDS[row[1]]} for row in d.log.tolist()]


def test_without_lines_there_is_no_log(i7: CompiledMachine) -> None:
    d, _ = simulated(i7, [once(T1, "store")])
    assert d.log is None and d.log_lost == 0


def test_log_of_two_stores(i7: CompiledMachine) -> None:
    """CPU 0's line comes from memory, CPU 1's from CPU 0: each event at its time, other lines left out."""
    first = at(T1)
    first.store(X)
    first.store(X + LINE)
    first.halt()
    d, entry = simulated(i7, [first, once(T2, "store")], log_lines=[X], log_events=100)
    rows = [(e["time_fs"], e["kind"], e["thread"], e["by_thread"]) for e in log(d)]
    begin = [row[0] for row in rows if row[1] == "issue"]
    memory = i7.l2_hit_fs + i7.hop_fs + i7.home_lookup_fs + i7.memory_fs + i7.hop_fs + i7.line_transfer_fs
    snooped = begin[1] + i7.l2_hit_fs + i7.hop_fs + i7.home_lookup_fs + i7.hop_fs + i7.snoop_fs
    got = begin[1] + remote_fs(i7, dirty=True)
    assert rows == [
        (begin[0], "issue", 0, -1),
        *[(begin[0] + memory, kind, 0, -1) for kind in ("answer", "grant", "store")],
        (begin[1], "issue", 1, -1),
        (snooped, "drop", -1, 1),
        (got, "answer", 1, -1),
        (got, "grant", 1, 0),
        (got, "store", 1, -1),
    ]
    grant = log(d)[-2]
    assert (grant["uop"], grant["by_uop"], grant["writable"], SERVED[int(grant["level"])]) == (entry[1] + 1, entry[0] + 1, 1, "remote_dirty")


def test_log_of_a_lost_reservation(t4240: CompiledMachine) -> None:
    holder = at(T1)
    holder.ll(X)
    holder.fence()
    holder.work((T3 - T1) // t4240.issue_fs)
    holder.sc(X)
    holder.halt()
    d, entry = simulated(t4240, [holder, once(T2, "store")], pin=(0, 2), log_lines=[X + 8], log_events=100)
    lost = [e for e in log(d) if e["kind"] in ("reservation_lost", "sc_failed")]
    assert [(e["kind"], e["thread"], e["by_thread"]) for e in lost] == [("reservation_lost", 0, 1), ("sc_failed", 0, -1)]
    assert lost[0]["by_uop"] == entry[1] + 1 and lost[0]["time_fs"] < T3 < lost[1]["time_fs"]


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("capacity", [7, 60, 100_000])
def test_the_log_keeps_the_first_events_with_and_without_look_ahead(name: str, capacity: int) -> None:
    m = tiny_machine(name)
    for seed in range(6):
        w = workload(m, random_programs(seed, m.isa, cpus=5, lines=3))
        options = {"log_lines": [X, X + LINE], "log_events": capacity}
        whole = simulate(m, w, log_lines=[X, X + LINE], log_events=100_000)
        short = [simulate(m, w, lookahead=lookahead, **options) for lookahead in (True, False)]  # type: ignore[arg-type]
        assert whole.log is not None and whole.log_lost == 0
        for d in short:
            assert d.log is not None
            assert np.array_equal(d.log, whole.log[: len(d.log)])
            assert len(d.log) + d.log_lost == len(whole.log) and len(d.log) <= capacity
            assert np.array_equal(d.time_fs, whole.time_fs) and np.array_equal(d.pairs, whole.pairs)
        assert len(short[0].log) == len(short[1].log)  # type: ignore[arg-type]
