"""Variants, choices, guards, run blocks, bundled workloads and `cohsim trace`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from workload_interpreter import Interpreter

from cohsim.cli.trace import trace_group
from cohsim.datafiles import bundled_names
from cohsim.errors import WorkloadError
from cohsim.uops import Op
from cohsim.workload import load_workload
from cohsim.workload.check import check_file
from cohsim.workload.compiled import CompiledWorkload
from cohsim.workload.info import describe, line_uses
from cohsim.workload.load import compile_text

WORKLOADS = Path(__file__).resolve().parent.parent / "workloads"
MICRO = sorted(p.stem for p in (WORKLOADS / "micro").glob("*.trace"))
ISAS = ("x86", "power")
WHOLE = sorted(p.relative_to(WORKLOADS).as_posix() for p in WORKLOADS.rglob("*.trace") if p.parent.name != "lib")  # lib: to include


def compiled(text: str, *variants: str, isa: str = "x86", cpus: int = 2, kernel: str | None = None) -> CompiledWorkload:
    return compile_text("cohsim-trace 1\n" + text, "t.trace", isa=isa, cpus=cpus, variants=variants, kernel=kernel).workload


def works(w: CompiledWorkload) -> list[int]:
    return [int(u["imm"]) for u in w.uops if u["op"] == Op.WORK]


def test_variants_replace_and_add() -> None:
    text = """param n 1
assume "always"
function f
    work n
function g
    work 50
path p
    call f
    when both
        call h
variant more "more work"
    param n 2
    assume "more"
variant other
    replace function f
        call g
variant both
    function h
        work 9
run
    loop p
"""
    assert works(compiled(text)) == [1]
    assert works(compiled(text, "more")) == [2]
    assert works(compiled(text, "other")) == [50]
    assert works(compiled(text, "both", "more")) == [2, 9]
    assert compiled(text).assumptions == ["always"]
    assert compiled(text, "more").assumptions == ["always", "more"]


def test_variant_objects_and_scope() -> None:
    text = """struct s size 64
    a 0 4
object x s shared
path p
    atomic_inc x.a
variant own
    object x s per-cpu
run
    loop p
"""
    assert compiled(text).objects[0].scope == "shared"
    own = compiled(text, "own")
    assert own.objects[0].scope == "per-cpu"
    m = Interpreter(own)
    m.run(3, seed=1)
    assert [m.word("x", instance=i) for i in (0, 1)] == [3, 3]


def test_choice_has_a_default_and_excludes() -> None:
    text = """choice kind slow fast
path p
    when slow
        work 9
    else
        work 1
    unless slow
        work 2
run
    loop p
"""
    assert works(compiled(text)) == works(compiled(text, "slow")) == [9]
    assert works(compiled(text, "fast")) == [1, 2]


def test_guards() -> None:
    text = """kernel 3.2
path p
    when isa x86
        work 1
    else
        work 2
    when kernel >= 3.2
        work 3
    when kernel < 3.10
        work 4
    when cpus > 2
        work 5
    unless cpus == 2
        work 6
run
    loop p
"""
    assert works(compiled(text)) == [1, 3, 4]
    assert works(compiled(text, isa="power", cpus=3)) == [2, 3, 4, 5, 6]
    assert works(compiled(text, kernel="3.10")) == [1, 3]
    assert works(compiled(text, kernel="2.6.31")) == [1, 4]
    assert works(compiled(text + "variant new\n    kernel 3.10\n", "new")) == [1, 3]


def test_run_lines_of_a_variant_replace_their_kind() -> None:
    text = """path p
    work 1
path q
    work 2
variant v
    run
        source 2Mpps frame 100B
        measure 3ms
variant w
    run
        on packet q
run
    source 1Mpps frame 64B
    on packet p
    warmup 10us measure 1ms
"""
    base, v, w = compiled(text), compiled(text, "v"), compiled(text, "w")
    assert base.source and v.source and w.source
    assert (base.source.rate_pps, base.warmup_ns, base.measure_ns) == (1e6, 1e4, 1e6)
    assert (v.source.rate_pps, v.source.frame_bytes, v.warmup_ns, v.measure_ns) == (2e6, 100, 1e4, 3e6)
    assert works(w) == [2]


def test_number_of_cpus() -> None:
    text = "path p\n    work 1\nrun\n    loop p\n    cpus {}\n"
    cases = [
        ("2", 2, ""),
        ("2", 3, "for 2 CPUs, not 3; give --cpus 2"),
        ("2..", 1, "for 2 or more CPUs, not 1"),
        ("2..", 9, ""),
        ("2..4", 5, "for 2 to 4 CPUs, not 5"),
        ("2..4", 4, ""),
    ]
    for asked, cpus, message in cases:
        if message:
            with pytest.raises(WorkloadError, match=message):
                compiled(text.format(asked), cpus=cpus)
        else:
            assert compiled(text.format(asked), cpus=cpus).cpus == cpus


def source(options: str, cpus: int = 24) -> object:
    return compiled(f"path p\n    work 1\nrun\n    source {options}\n    on packet p\n", cpus=cpus).source


def test_source() -> None:
    s = source("10Gbit/s frame 78B overhead 20B spread rss queues 128 ring 64 flows 5 pool 512 arrivals poisson link 1Gbit/s")
    assert s.rate_pps == pytest.approx(10e9 / (98 * 8))  # type: ignore[attr-defined]
    assert s.weights == (6 / 128,) * 8 + (5 / 128,) * 16  # type: ignore[attr-defined]
    assert sum(s.weights) == pytest.approx(1)  # type: ignore[attr-defined]
    values = (s.frame_bytes, s.overhead_bytes, s.ring, s.flows, s.pool, s.arrivals, s.link_bps)  # type: ignore[attr-defined]
    assert values == (78, 20, 64, 5, 512, "poisson", 1e9)


def test_source_defaults_and_spreads() -> None:
    s = source("5Mpps frame 64B", 4)
    assert (s.rate_pps, s.weights, s.link_bps, s.arrivals) == (5e6, (0.25,) * 4, 0, "constant")  # type: ignore[attr-defined]
    assert source("1kpps frame 64B spread single", 3).weights == (1, 0, 0)  # type: ignore[attr-defined]
    assert source("1kpps frame 64B spread weights 3 1", 2).weights == (0.75, 0.25)  # type: ignore[attr-defined]
    assert source("1Gbit/s frame 100B overhead 0B", 2).rate_pps == pytest.approx(1.25e6)  # type: ignore[attr-defined]


# ---- bundled files
@pytest.mark.parametrize("name", WHOLE)
def test_bundled_workloads_are_sound(name: str) -> None:
    assert check_file(WORKLOADS / name).endswith("x86 and power")


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("name", "expected"),
    [("micro/atomic_inc", 80), ("micro/cas_inc", 80), ("micro/private_inc", 20)],
)
def test_counters_count(name: str, expected: int, isa: str) -> None:
    m = Interpreter(load_workload(name, isa=isa, cpus=4))
    m.run(20, seed=2)
    assert m.word("counter") == expected


@pytest.mark.parametrize("isa", ISAS)
def test_plain_inc_loses_updates(isa: str) -> None:
    m = Interpreter(load_workload("micro/plain_inc", isa=isa, cpus=4))
    m.run(20, seed=2)
    assert 20 <= m.word("counter") < 80


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["ticket", "tas", "ttas", "mcs", "queued", "kernel_default"])
def test_spinlock_protects_its_counter(kind: str, isa: str) -> None:
    w = load_workload("micro/spinlock", isa=isa, cpus=4, variants=(kind,))
    assert any(kind in f or kind == "kernel_default" for f in w.func_names)
    m = Interpreter(w)
    m.run(8, seed=5)
    assert m.word("counter") == 32


@pytest.mark.parametrize("isa", ISAS)
def test_ping_pong_alternates(isa: str) -> None:
    w = load_workload("micro/ping_pong", isa=isa, cpus=2)
    m = Interpreter(w)
    m.run(30, seed=1)
    assert m.iterations == [30, 30]
    ops = {int(u["op"]) for u in w.uops}
    assert Op.LOAD not in ops, "the compare-and-swap itself polls"


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("variant", "size"), [("l1", 16 << 10), ("l2", 128 << 10), ("l3", 4 << 20)])
def test_pointer_chase_walks_its_ring(variant: str, size: int, isa: str) -> None:
    w = load_workload("micro/pointer_chase", isa=isa, cpus=1, variants=(variant,))
    ring = next(o for o in w.objects if o.name == "ring")
    assert ring.size_bytes == size
    links = {address: value for address, _, value in w.memory}
    at, m = ring.base, Interpreter(w)
    for iteration in (1, 2):
        for _ in range(256):
            at = links[at]
        m.run(iteration)
        assert m.word("cursor") == at, "256 loads, and the next iteration goes on where this one stopped"


@pytest.mark.parametrize("state", ["modified", "exclusive", "shared_state", "untouched"])
def test_load_latency_handshake(state: str) -> None:
    w = load_workload("micro/load_latency", isa="power", cpus=3 if state == "shared_state" else 2, variants=(state,))
    m = Interpreter(w)
    m.run(10, seed=4)
    assert m.iterations[:2] == [10, 10]
    assert m.word("probe", instance=9) == (1 if state == "modified" else 0)


def test_names_are_resolved() -> None:
    assert {f"micro/{name}" for name in MICRO} <= set(bundled_names("workloads", ".trace"))
    assert load_workload("micro/atomic_inc", isa="x86", cpus=1).name == "atomic_inc"


def test_compilation_is_reproducible() -> None:
    a, b = (load_workload("micro/spinlock", isa="power", cpus=4, variants=("queued",)) for _ in range(2))
    assert (a.uops == b.uops).all() and a.memory == b.memory and a.objects == b.objects


# ---- cohsim trace
def test_trace_check_command(tmp_path: Path) -> None:
    bad = tmp_path / "bad.trace"
    bad.write_text("cohsim-trace 1\npath p\n    lod x\n    work\nrun\n    loop p\n")
    result = CliRunner().invoke(trace_group, ["check", "micro/atomic_inc", str(bad)])
    assert result.exit_code == 2
    assert "micro/atomic_inc: ok" in result.stdout
    assert result.stderr.splitlines()[0].startswith(f"{bad}:4:9: the line ends too early; expected")
    assert CliRunner().invoke(trace_group, ["check", "micro/atomic_inc"]).exit_code == 0
    assert CliRunner().invoke(trace_group, ["info", "micro/none"]).exit_code == 2


def test_trace_info_command() -> None:
    result = CliRunner().invoke(trace_group, ["info", "micro/cas_inc", "--isa", "power", "--kernel", "4.4"])
    assert result.exit_code == 0
    assert "isa power, 2 CPUs, kernel 4.4" in result.stdout
    assert "cmpxchg                sync; ldarx; 1 instruction; bne; stdcx.; bne-; sync" in result.stdout
    assert "1 contended atomics" in result.stdout
    assert "counter  bytes 0..63  (shared, line 0x100000000)" in result.stdout


def test_info_names_sharers_and_counts() -> None:
    text = """struct s size 128
    lock 0 4
    data 8 8
    quiet 64 8
object x s shared
object y s per-cpu
object z s shared
function writer
    store x.lock = 1
    work 5 loads 2 stores 1 in y
path p
    call writer
    load x.data
    load x.quiet x 3
    load z.data
    repeat 4
        load z.data
    atomic_inc x.lock
run
    loop p
"""
    c = compile_text("cohsim-trace 1\n" + text, "t.trace", isa="x86", cpus=2)
    use = line_uses(c.workload)[("x", c.workload.objects[0].base)]
    assert {k: sorted(v) for k, v in use.writers.items()} == {"lock": ["p", "writer"]}
    assert {k: sorted(v) for k, v in use.readers.items()} == {"lock": ["p"], "data": ["p"]}
    report = describe(c)
    # store + 5 + load + 3 + load + (mov + 4 * (load + sub + branch)) + lock add + branch back
    assert "p: 26 instructions" in report
    counts = ["1 contended atomics", "1 contended loads", "1 contended stores", "2 private loads", "1 private stores"]
    for line in [*counts, "8 shared read-only loads"]:
        assert line in report
