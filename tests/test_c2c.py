"""``cohsim c2c``: figures of a synthetic run worked out by hand, verdicts of small workloads, the command."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
from click.testing import CliRunner

from cohsim.cli.c2c import c2c_command
from cohsim.cli.main import main
from cohsim.errors import InputError
from cohsim.experiment import prepare
from cohsim.report.c2c import (
    CpuTake,
    Distance,
    Kill,
    SharedField,
    SharedLine,
    Take,
    Transfers,
    Verdict,
    judge,
    shared_lines,
)
from cohsim.results.hdf5 import write_result
from cohsim.results.result import Result
from cohsim.results.rundata import LATENCY_BINS, PAIR_CPU_KILL, PAIR_CPU_TAKE, PAIR_KILL, PAIR_TAKE, SERVED, RunData
from cohsim.results.summary import IDLE

NS = 1_000_000
LL, SC, FLAGS, SKB = 4, 6, 8, 9  # micro-ops of synthetic.workload
REFCNT, ROUTE, POOL = 0x1040, 0x1000, 0x2000


def dirty() -> int:
    return PAIR_TAKE + SERVED.index("remote_dirty")


def run_data() -> RunData:
    """The synthetic run with takes: of refcnt mostly for itself, of an sk_buff, and latencies in two bins."""
    run = synthetic.run_data()
    latency = np.zeros((11, 2 + LATENCY_BINS), np.int64)
    latency[LL, :2], latency[LL, 2 + 6] = (96 * 40 * NS, 60 * NS), 96  # 64 to 127 cycles of 0.5 ns
    latency[SC, :2], latency[SC, 2 + 8] = (4 * 190 * NS, 200 * NS), 4  # 256 to 511 cycles
    rows = [
        (dirty(), REFCNT, LL, SC, 10, 1000 * NS),
        (PAIR_TAKE + SERVED.index("upgrade"), REFCNT, SC, LL, 5, 200 * NS),
        (dirty(), REFCNT, LL, -1, 1, 7 * NS),
        (dirty(), POOL, SKB, SKB, 30, 1500 * NS),
        (PAIR_CPU_TAKE, REFCNT, 0, 1, 9, 900 * NS),
        (PAIR_CPU_TAKE, REFCNT, 1, 0, 6, 300 * NS),
        (PAIR_CPU_TAKE, REFCNT, 1, -1, 1, 7 * NS),
        (PAIR_KILL, REFCNT, SC, LL, 150, 0),
        (PAIR_KILL, REFCNT, -1, LL, 2, 0),
        (PAIR_CPU_KILL, REFCNT, 0, 1, 152, 0),
    ]
    accessed = {LL: (0, 4), SC: (0, 4), SKB: (0, 4), -1: (-1, 0)}  # bytes of the line
    pairs = [(*row, *((-1, 0, -1, 0) if row[0] >= PAIR_CPU_TAKE else accessed[row[2]] + accessed[row[3]])) for row in rows]
    return replace(run, pairs=np.array(pairs, np.int64), uop_latency=latency)


@pytest.fixture
def result() -> Result:
    return synthetic.result(run_data())


@pytest.fixture
def lines(result: Result) -> dict[str, SharedLine]:
    return {line.label: line for line in shared_lines(result)}


# ---- figures


def test_lines_come_by_cost(result: Result) -> None:
    """800, 30 and 10 ms of 1.6 s of busy time; then the femtoseconds of the others."""
    found = shared_lines(result)
    assert [line.label for line in found] == ["route+64", "skb[*]+0", "0x9000", "lock+0", "route+0"]
    busy = sum(synthetic.BUSY_FS)
    assert found[0].stall_share == 800_000_000_000 / busy and found[1].stall_share == 40_000_000_000 / busy
    assert (found[1].lines, found[1].struct, found[3].shared_with) == (2, "sk_buff", ("hint",))


def test_a_field_has_its_counts_users_and_latencies(lines: dict[str, SharedLine]) -> None:
    (refcnt,) = lines["route+64"].fields
    assert (refcnt.label, refcnt.offset, refcnt.size, refcnt.functions) == ("route.refcnt", 64, 4, ("dst_release",))
    assert (refcnt.loads, refcnt.stores, refcnt.atomics, refcnt.retries) == (2200, 0, 2200, 200)
    assert refcnt.reads_by_cpu == refcnt.writes_by_cpu == (1000, 1200)
    assert (refcnt.hitm_local, refcnt.hitm_remote) == (0, 4400)  # all of count was served modified by another node; no shared L3
    assert refcnt.accesses_beyond_l1 == 100 and refcnt.mean_ns == pytest.approx((96 * 40 + 4 * 190) / 100)
    assert refcnt.p95_ns == 128 * 0.5  # 96 of 100 lie below 128 cycles
    assert refcnt.p99_ns == 200.0  # in the bin up to 512 cycles, but nothing took longer than 200 ns
    assert refcnt.max_ns == 200.0
    assert refcnt.time_share == 1_000_000_000_000 / sum(synthetic.BUSY_FS)  # 300 + 400 + 300 ms at LL and SC


def test_takes_are_named_by_function_and_field(lines: dict[str, SharedLine]) -> None:
    line = lines["route+64"]
    assert line.takers == (
        Take("dst_release", "route.refcnt", "dst_release", "route.refcnt", "remote_dirty", True, 10, 1000.0),
        Take("dst_release", "route.refcnt", "dst_release", "route.refcnt", "upgrade", True, 5, 200.0),
        Take("dst_release", "route.refcnt", "", "", "remote_dirty", None, 1, 7.0),
    )
    assert line.cpu_takers == (
        CpuTake(0, 1, Distance.REMOTE, 9, 900.0),
        CpuTake(1, 0, Distance.REMOTE, 6, 300.0),
        CpuTake(1, -1, Distance.UNKNOWN, 1, 7.0),
    )
    assert line.transfers == (Transfers(Distance.REMOTE, 15, 1200.0), Transfers(Distance.UNKNOWN, 1, 7.0))
    assert (line.take_count, line.take_ns) == (16, 1207.0)
    assert line.killers == (Kill("dst_release", "route.refcnt", "dst_release", "route.refcnt", 150), Kill("", "", "dst_release", "route.refcnt", 2))


def test_takes_of_instances_are_found_from_any_of_their_lines(lines: dict[str, SharedLine]) -> None:
    """The core counts them on the line of instance 0, although the busiest line is that of instance 1."""
    assert [(t.count, t.latency_ns) for t in lines["skb[*]+0"].takers] == [(30, 1500.0)]


def test_threads_of_one_core_and_of_one_cluster_are_near(result: Result) -> None:
    for core, node, expected in (([0, 0], [0, 0], Distance.SIBLING), ([0, 1], [0, 0], Distance.CLUSTER), ([0, 1], [0, 1], Distance.REMOTE)):
        placed = Result(dict(result.data) | {"/threads/core": np.array(core), "/threads/node": np.array(node)}, result.host)
        assert shared_lines(placed)[0].cpu_takers[0].distance is expected


def test_a_shared_l3_makes_modified_lines_local(result: Result) -> None:
    text = str(result.data["/provenance/machine_compiled"])
    assert '"l3_inclusive": false' in text
    text = text.replace('"l3_inclusive": false', '"l3_inclusive": true')
    inclusive = Result(dict(result.data) | {"/provenance/machine_compiled": text}, result.host)
    assert [(f.hitm_local, f.hitm_remote) for f in shared_lines(inclusive)[0].fields] == [(4400, 0)]


def test_an_older_result_gives_one_line(result: Result) -> None:
    older = synthetic.result()  # without uop_latency nothing of this is written
    with pytest.raises(InputError, match=r"^old.h5: .* older cohsim wrote it; run the simulation again$"):
        shared_lines(older, source="old.h5")


# ---- verdicts


def a_field(label: str, reads: tuple[int, ...], writes: tuple[int, ...], offset: int = 0) -> SharedField:
    return SharedField("o", label, offset, 8, ("f",), sum(reads), sum(writes), 0, 0, 0, 0, reads, writes, 0, 0.0, 0.0, 0.0, 0.0, 0.0, "")


def a_take(same: bool | None, ns: float, a: str = "o.a", b: str = "o.b") -> Take:
    return Take("f", a, "g", b, "remote_dirty", same, 1, ns)


BOTH = [a_field("a", (100, 100), (100, 0)), a_field("b", (0, 0), (0, 100), 8)]


@pytest.mark.parametrize(
    ("same_ns", "other_ns", "verdict"),
    [
        (80.0, 20.0, Verdict.TRUE_SHARING),
        (79.0, 21.0, Verdict.MIXED),
        (21.0, 79.0, Verdict.MIXED),
        (20.0, 80.0, Verdict.FALSE_SHARING),
        (0.0, 1.0, Verdict.FALSE_SHARING),
    ],
)
def test_verdict_by_cycles_of_common_and_different_bytes(same_ns: float, other_ns: float, verdict: Verdict) -> None:
    found, reason = judge(BOTH, [a_take(True, same_ns, "o.a", "o.a"), a_take(False, other_ns), a_take(None, 1e6)], 0.5)
    assert found is verdict and reason.endswith(".") and "\n" not in reason
    assert ("o.a after o.b" in reason) == (verdict is not Verdict.TRUE_SHARING)


def test_bytes_that_nobody_writes_need_not_move() -> None:
    """A reader that gets the line from another reader of the same field: the write beside it is to blame."""
    fields = [a_field("a", (450, 450), (0, 0)), a_field("b", (0, 0), (300, 0), 8)]
    found, reason = judge(fields, [a_take(True, 10.0, "o.a", "o.a")], 0.5)
    assert found is Verdict.FALSE_SHARING and "(o.a, which nobody writes)" in reason
    assert judge([replace(fields[0], writes_by_cpu=(200, 0))], [a_take(True, 10.0, "o.a", "o.a")], 0.5)[0] is Verdict.TRUE_SHARING


def test_many_cheap_takes_do_not_outweigh_a_dear_one() -> None:
    cheap = Take("f", "o.a", "g", "o.b", "l2", False, 1000, 10.0)
    assert judge(BOTH, [cheap, a_take(True, 90.0)], 0.5)[0] is Verdict.TRUE_SHARING


def test_threshold() -> None:
    takes = [a_take(True, 1.0)]
    assert judge(BOTH, takes, 0.0099)[0] is Verdict.DOES_NOT_MATTER
    assert judge(BOTH, takes, 0.01)[0] is Verdict.TRUE_SHARING
    assert judge(BOTH, takes, 0.01, threshold=0.02) == (Verdict.DOES_NOT_MATTER, "1.00 % of busy time is spent waiting for it, less than 2 %.")


def test_without_takes_it_is_not_shared() -> None:
    assert judge(BOTH, [], 0.5)[0] is Verdict.NOT_SHARED


@pytest.mark.parametrize(("writes", "verdict"), [(100, Verdict.READ_MOSTLY), (101, Verdict.FALSE_SHARING)])
def test_read_mostly_is_at_most_a_tenth_of_writes(writes: int, verdict: Verdict) -> None:
    fields = [a_field("a", (450, 450), (0, 0)), a_field("b", (0, 0), (writes, 0), 8)]
    found, reason = judge(fields, [a_take(False, 10.0)], 0.5)
    assert found is verdict and "o.b" in reason


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ([a_field("a", (5, 5), (5, 0))], Verdict.TRUE_SHARING),
        ([a_field("a", (5, 0), (5, 0)), a_field("b", (0, 5), (0, 5), 8)], Verdict.FALSE_SHARING),
        ([a_field("a", (5, 0), (5, 0))], Verdict.MIXED),
        ([], Verdict.MIXED),
    ],
)
def test_who_uses_which_bytes_decides_where_the_takes_do_not_say(fields: list[SharedField], verdict: Verdict) -> None:
    found, reason = judge(fields, [a_take(None, 10.0)], 0.5)
    assert found is verdict and "not known" in reason or verdict is Verdict.FALSE_SHARING


# ---- workloads


def simulate(tmp_path: Path, body: str, cpus: int, machine: str = "corei7") -> list[SharedLine]:
    path = tmp_path / "w.trace"
    path.write_text(f"cohsim-trace 1\nstruct two size 64\n    a 0 8\n    b 8 8\nobject o two shared\n{body}")
    return shared_lines(prepare(machine, str(path), cpus=cpus, pin=tuple(range(cpus)), warmup_ns=5_000.0, measure_ns=40_000.0).run())


def increment(field: str, work: int = 20) -> str:
    return f"    v = load o.{field}\n    v = v + 1\n    store o.{field} = v\n    work {work}\n"


def test_two_cpus_with_a_field_each_share_falsely(tmp_path: Path) -> None:
    body = f"path first\n{increment('a')}path second\n{increment('b')}run\n    cpu 0 runs first\n    cpu 1 runs second\n"
    line = simulate(tmp_path, body, 2)[0]
    assert (line.label, line.verdict) == ("o+0", Verdict.FALSE_SHARING)
    assert {(t.taker_field, t.holder_field) for t in line.takers} == {("o.a", "o.b"), ("o.b", "o.a")}
    assert {(t.taker, t.holder) for t in line.takers} == {("first", "second"), ("second", "first")}
    users = {f.label: (f.reads_by_cpu, f.writes_by_cpu) for f in line.fields}
    assert all(reads[0] and not reads[1] for reads in users["o.a"]) and all(reads[1] and not reads[0] for reads in users["o.b"])
    assert line.transfers[0].count == line.take_count == sum(t.count for t in line.takers)


def test_two_cpus_with_one_counter_share_truly(tmp_path: Path) -> None:
    line = simulate(tmp_path, f"path p\n{increment('a')}run\n    loop p\n", 2)[0]
    assert (line.verdict, [f.label for f in line.fields]) == (Verdict.TRUE_SHARING, ["o.a"])


def test_a_rare_writer_disturbs_readers(tmp_path: Path) -> None:
    body = f"path reader\n    load o.a\n    work 4\npath writer\n{increment('b', 3000)}run\n    cpu 0 runs writer\n    cpu 1.. runs reader\n"
    line = simulate(tmp_path, body, 4)[0]
    assert line.verdict is Verdict.READ_MOSTLY and "(o.b)" in line.reason
    assert {t.holder for t in line.takers if t.taker == "reader" and t.how == "remote_dirty"} == {"writer"}


def test_a_cpu_alone_shares_nothing() -> None:
    found = shared_lines(prepare("corei7", "micro/pointer_chase", cpus=1, warmup_ns=1_000.0, measure_ns=20_000.0).run(), threshold=0.0)
    assert found and {line.verdict for line in found} == {Verdict.NOT_SHARED}


@pytest.mark.parametrize(("variant", "kind"), [("ticket", "ticket"), ("ttas", "ttas"), ("mcs", "mcs"), ("kernel_default", "ticket")])
def test_the_queue_of_a_lock_is_the_time_in_its_acquiring_functions(variant: str, kind: str) -> None:
    """On x86 the default lock of an older kernel is a ticket lock. All waiting of ``{kind}_lock`` is at this one lock."""
    result = prepare("corei7", "micro/spinlock", cpus=4, pin=(0, 1, 2, 3), variants=(variant,), warmup_ns=5_000.0, measure_ns=40_000.0).run()
    found = {line.label: line for line in shared_lines(result, threshold=0.0)}
    lock = found["lock+0"].lock
    assert lock is not None and (lock.kind, lock.field) == (kind, "lock.word")
    acquire = "spin_lock" if variant == "kernel_default" else f"{kind}_lock"
    time = result.array("/functions/time_fs")[:, result.names("/functions/name").index(acquire)].sum(axis=0)
    waiting = int(time.sum()) - int(time[0]) - int(time[IDLE])
    assert lock.queue_length == waiting / result.number("/run/measured_fs") > 0.5
    assert [f.lock for f in found["lock+0"].fields] == [kind] and found["counter+0"].lock is None


def test_bytes_behind_a_pointer_are_named_by_what_lies_there(tmp_path: Path) -> None:
    """CPU 0 names its field, CPU 1 comes by pointer: to the same field, or to bytes nobody names."""
    for offset, label, verdict in ((0, "o.a", Verdict.TRUE_SHARING), (32, "o+32:8", Verdict.FALSE_SHARING)):
        body = f"path first\n{increment('a')}path second\n    q = addr o\n    v = load [q+{offset}]:8\n    v = v + 1\n    store [q+{offset}]:8 = v\n"
        line = simulate(tmp_path, f"{body}    work 20\nrun\n    cpu 0 runs first\n    cpu 1 runs second\n", 2)[0]
        assert {(t.taker_field, t.holder_field) for t in line.takers} == {("o.a", label), (label, "o.a")}
        assert line.verdict is verdict


def test_a_lock_behind_a_pointer_is_found_where_it_is_taken(tmp_path: Path) -> None:
    """Two locks, one function: its waiting goes to the lines by the cycles of their takes. The spinning counts as cost."""
    lock = "path {0}\n    q = addr {1}\n    call locked(q)\n"
    body = "object r two shared\nfunction locked(q)\n    ticket_lock q->two.a\n    work 100\n    ticket_unlock q->two.a\n"
    body += lock.format("first", "o") + lock.format("second", "r") + "run\n    cpu 0..2 runs first\n    cpu 3 runs second\n"
    path = tmp_path / "w.trace"
    path.write_text(f"cohsim-trace 1\nstruct two size 64\n    a 0 8\n    b 8 8\nobject o two shared\n{body}")
    result = prepare("corei7", str(path), cpus=4, pin=(0, 1, 2, 3), warmup_ns=5_000.0, measure_ns=40_000.0).run()
    line = shared_lines(result)[0]
    assert line.label == "o+0" and line.lock is not None and (line.lock.kind, line.lock.field) == ("ticket", "o+0:1")
    time = result.array("/functions/time_fs")[:, result.names("/functions/name").index("ticket_lock")].sum(axis=0)
    waiting = int(time.sum()) - int(time[0]) - int(time[IDLE])
    assert line.lock.queue_length == pytest.approx(waiting / result.number("/run/measured_fs"))  # nobody takes r from CPU 3
    assert line.cost_share == pytest.approx(line.lock.queue_length / 4) and line.cost_share > 2 * line.stall_share


# ---- the command


@pytest.fixture
def file(result: Result, tmp_path: Path) -> str:
    path = tmp_path / "out.h5"
    write_result(result, path)
    return str(path)


def test_text(file: str) -> None:
    text = CliRunner().invoke(c2c_command, [file]).stdout
    lines = text.splitlines()
    assert lines[0] == "tiny_path on tiny, 2 CPUs: shared lines by cost"
    row = next(line for line in lines if " route+64 " in line).split()
    assert row == ["50.00%", "50.00%", "route+64", "true", "sharing", "16", "75.4", "0", "4400", "2200", "0", "2200", "200", "1250"]
    assert "==== route+64 of struct rt6_info: true sharing" in text and "==== route+0" not in text
    assert "152 reservations lost, 200 store-conditionals failed" in text and "(eviction or device)" in text
    assert "==== skb[*]+0 of struct sk_buff, 2 lines alike" in text


def test_one_line_top_and_pairs(file: str) -> None:
    only = CliRunner().invoke(c2c_command, [file, "--line", "route+0"]).stdout
    assert "==== route+0 of struct rt6_info: does not matter" in only and "route+64" not in only
    assert "==== skb[*]+0" in CliRunner().invoke(c2c_command, [file, "--line", "skb+0"]).stdout
    top = CliRunner().invoke(c2c_command, [file, "--top", "1", "--pairs", "1"]).stdout
    assert "skb" not in top and "4 more lines: 2.50% of busy time is stall for them" in top and "7 in 2 more pairs" in top


def test_threshold_option(file: str) -> None:
    assert "==== skb" not in CliRunner().invoke(c2c_command, [file, "--threshold", "10"]).stdout


def test_json(file: str, tmp_path: Path) -> None:
    shown = CliRunner().invoke(c2c_command, [file, "--json", "-"])
    document = json.loads(shown.stdout)
    assert (document["workload"], document["cpus"], document["threshold"], document["pairs_lost"]) == ("tiny_path", 2, 0.01, 0)
    first = document["lines"][0]
    assert (first["label"], first["verdict"], first["takes"], first["take_ns"]) == ("route+64", "true sharing", 16, 1207.0)
    assert first["takers"][0]["same_bytes"] is True and first["transfers"][0] == {"distance": "remote", "count": 15, "latency_ns": 1200.0}
    target = tmp_path / "c.json"
    assert "route+64" in CliRunner().invoke(c2c_command, [file, "--json", str(target)]).stdout
    assert json.loads(target.read_text()) == document


def test_what_did_not_fit_is_said(result: Result, tmp_path: Path) -> None:
    run = replace(run_data(), pairs_lost=1234)
    write_result(synthetic.result(run), tmp_path / "full.h5")
    assert "1,234 takes and lost reservations are counted, not attributed" in CliRunner().invoke(c2c_command, [str(tmp_path / "full.h5")]).stdout


def test_bad_input_is_one_line_and_exit_code_2(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older = tmp_path / "older.h5"
    with h5py.File(file) as source, h5py.File(older, "w") as target:
        for key, value in source.attrs.items():
            target.attrs[key] = value
        for name in source:
            if name not in ("takes", "cpu_takes", "kills", "cpu_kills", "locks"):
                source.copy(name, target)
    for arguments, expected in (
        ([str(older)], f"{older}: the result does not say who took lines from whom"),
        ([str(tmp_path / "none.h5")], "no such file"),
        ([file, "--line", "nothing+0"], "--line: no line 'nothing+0' was missed or fought for; the run has, for example, route+64"),
        ([file, "--threshold", "101"], "--threshold"),
        ([file, "--top", "0"], "--top"),
        ([file, "--json", str(tmp_path / "no" / "x.json")], "does not exist"),
    ):
        assert main(["c2c", *arguments]) == 2, arguments
        captured = capsys.readouterr()
        assert captured.out == "" and len(captured.err.splitlines()) == 1 and expected in captured.err, captured.err
    assert main(["report", str(older)]) == 0  # the older file is good for everything else


# ---- docs/c2c.md


def doc_commands(text: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("    cohsim ")]


def headers(text: str) -> set[str]:
    """Heads of tables, by their columns; how wide they are depends on the figures."""
    lines = text.splitlines()
    return {" ".join(a.split()) for a, b in zip(lines, lines[1:], strict=False) if set(b) == {"-", " "}}


def test_the_walk_through_of_the_documentation_runs(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its commands, with a shorter run, print the tables that it explains, and come to its conclusions."""
    text = (checkout / "docs" / "c2c.md").read_text()
    commands = doc_commands(text)
    assert [c[0] for c in commands] == ["run", "c2c", "run", "timeline"]
    monkeypatch.chdir(tmp_path)
    printed = {}
    for command in commands:
        short = ["--warmup", "100us", "--measure", "150us"] if command[0] == "run" else []
        assert main([*command, *short]) == 0, command
        printed[command[0]] = capsys.readouterr().out
    assert headers(printed["c2c"]) == headers(text.split("## What the columns mean")[0])
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert main(["c2c", "r1.h5", "--json", "c.json"]) == 0
    found = {line["label"]: line for line in json.loads((tmp_path / "c.json").read_text())["lines"]}
    route, table = found["route+128"], found["table+0"]
    assert route["verdict"] == "mixed" and route["stall_share"] > 0.5 > 0.1 > table["stall_share"]
    assert (table["verdict"], table["lock"]["kind"]) == ("true sharing", "rwlock")
    by_name = {f["name"]: f for f in route["fields"]}
    assert route["fields"][0]["name"] == "dst.__refcnt" and by_name["dst.__refcnt"]["time_share"] > 0.45
    assert not any(by_name["rt6i_gateway"]["writes_by_cpu"] + by_name["dst.rt6_next"]["writes_by_cpu"])
    statistics = sum(k["count"] for k in route["killers"] if k["killer_field"] in ("route.dst.__use", "route.dst.lastuse"))
    assert 0.1 < statistics / sum(k["count"] for k in route["killers"]) < 0.35
    assert {t["distance"] for t in route["transfers"]} == {"sibling", "cluster", "remote", "unknown"}
