"""``cohsim advise`` on small workloads whose best change is known, and candidates that follow from verdicts alone."""

from __future__ import annotations

import json
import re

import pytest

from cohsim.advise import Kind, advise, candidates
from cohsim.advise.candidates import moves, variant_candidates
from cohsim.advise.search import FINALISTS, workload_choices
from cohsim.cli.main import main
from cohsim.errors import InputError
from cohsim.report.c2c import SharedField, shared_lines
from cohsim.sweep import Point, SerialBackend
from cohsim.workload.compiled import PlacedObject

RUN = "run\n    warmup 2us measure 15us\n"
FALSE_SHARING = """cohsim-trace 1
struct pair size 64
    left 0 8
    right 8 8
object both pair shared
path one
    atomic_inc both.left
    work 5
path two
    atomic_inc both.right
    work 5
run
    cpu 0 runs one
    cpu 1.. runs two
    warmup 2us measure 15us
"""
COUNTER = """cohsim-trace 1
struct stats size 64
    hits 0 8
object total stats shared
path count
    atomic_inc total.hits
    work 20
run
    loop count
    warmup 2us measure 15us
"""
READERS = """cohsim-trace 1
struct entry size 64
    users 0 4
    key 8 8
    next 16 8
object item entry shared
path look
    load item.key
    load item.next
    work 40
path use
    atomic_inc item.users
    work 15
run
    cpu 0..1 runs use
    cpu 2.. runs look
    warmup 2us measure 15us
"""
LOCKED = """cohsim-trace 1
struct guarded size 128
    lock 0 8
    data 64 8
object thing guarded shared
path work_on
    tas_lock thing.lock+0:4
    v = load thing.data
    store thing.data = v + 1
    tas_unlock thing.lock+0:4
    work 60
variant slower "the lock is held longer"
    replace path work_on
        tas_lock thing.lock+0:4
        v = load thing.data
        store thing.data = v + 1
        work 400
        tas_unlock thing.lock+0:4
        work 60
choice mode normal idle_loop
variant idle_loop "without the lock"
    replace path work_on
        work 10
run
    loop work_on
    warmup 2us measure 30us
"""
ARRAY = """cohsim-trace 1
object slots bytes 8 per-cpu stride 8
path bump
    v = load slots+0:8
    store slots+0:8 = v + 1
    work 3
run
    loop bump
    warmup 2us measure 15us
"""
PRIVATE = """cohsim-trace 1
object mine bytes 64 per-cpu
path alone
    v = load mine+0:8
    store mine+0:8 = v + 1
run
    loop alone
    warmup 2us measure 15us
"""


def found(tmp_path, text, machine="t4240", cpus=8, seeds=2, rounds=1, **inputs):
    path = tmp_path / "w.trace"
    path.write_text(text)
    return advise(Point(machine, str(path), cpus=cpus, **inputs), seeds=seeds, rounds=rounds, backend=SerialBackend())


def suggested(path, machine="t4240", cpus=8):
    experiment = Point(machine, str(path), cpus=cpus).prepare()
    return candidates(shared_lines(experiment.run()), experiment.workload, experiment.machine.line_bytes)


def best(advice, kind=None):
    return next(t for t in advice.rounds[0].trials if kind is None or t.candidate.kind == kind)


# ---- the known best change is found


def test_false_sharing_is_separated(tmp_path):
    """Apart, each CPU hits its own L1: nothing is left to wait for, so no other change can gain more."""
    advice = found(tmp_path, FALSE_SHARING, "corei7", pin=(0, 2), cpus=2)
    first = best(advice)
    assert first.candidate.kind == Kind.SEPARATE and re.fullmatch(r"pair\.(left|right):own-line", first.candidate.layouts[0])
    assert first.certain and first.gain.mean > 0.2, first


def test_a_counter_is_taken_apart_per_cpu(tmp_path):
    advice = found(tmp_path, COUNTER)
    kinds = {t.candidate.kind: t for t in advice.rounds[0].trials}
    assert set(kinds) == {Kind.PER_CPU, Kind.BATCH}
    assert kinds[Kind.PER_CPU].candidate.layouts == ("total:per-cpu",) and kinds[Kind.BATCH].candidate.layouts == ("stats.hits:batch=32",)
    assert all(t.certain and t.gain.mean > 1.0 for t in kinds.values())
    assert best(advice) is max(kinds.values(), key=lambda t: t.gain.mean)


def test_readers_get_their_bytes_away_from_the_counter(tmp_path):
    advice = found(tmp_path, READERS)
    moved = best(advice, Kind.SEPARATE)
    assert ("entry.key@64", "entry.next@72") in [t.candidate.layouts for t in advice.rounds[0].trials]
    assert moved.certain and moved.gain.mean > 0.05


def test_a_bad_lock_is_replaced_and_variants_are_tried(tmp_path):
    advice = found(tmp_path, LOCKED)
    trials = advice.rounds[0].trials
    locks = [t for t in trials if t.candidate.kind == Kind.LOCK]
    assert {t.candidate.locks[0] for t in locks} == {f"thing.lock={kind}" for kind in ("ttas", "ticket", "mcs", "queued")}
    assert locks[0].certain and locks[0].gain.mean > 0.1
    variants = {t.candidate.variants[0]: t for t in trials if t.candidate.kind == Kind.VARIANT}
    assert set(variants) == {"slower", "idle_loop"}
    assert variants["slower"].gain.mean < 0 < variants["idle_loop"].gain.mean and best(advice) is variants["idle_loop"]
    assert ("thing:per-cpu",) in [t.candidate.layouts for t in trials]


def test_instances_that_meet_in_a_line_are_spread(tmp_path):
    advice = found(tmp_path, ARRAY, "corei7", cpus=4)
    first = best(advice)
    assert first.candidate.layouts == ("slots:pad",) and first.certain and first.gain.mean > 0.2


def test_nothing_is_proposed_where_nothing_is_shared(tmp_path, capsys):
    (tmp_path / "w.trace").write_text(PRIVATE)
    assert suggested(tmp_path / "w.trace") == []
    assert main(["advise", "t4240", str(tmp_path / "w.trace"), "--cpus", "4", "--seeds", "2", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "no candidate" in out and "no candidate gains more than the seeds differ" in out


# ---- candidates


@pytest.mark.parametrize("text", [COUNTER, READERS, LOCKED, FALSE_SHARING])
def test_names_decide_nothing(tmp_path, text):
    """The same workload with other names has the same candidates under those names."""
    names = ("pair", "left", "right", "both", "stats", "hits", "total", "entry", "users", "key", "item", "guarded", "data", "thing")
    other = re.sub(rf"\b({'|'.join(names)})\b", lambda m: f"x{names.index(m[1])}y", text)
    (tmp_path / "a.trace").write_text(text)
    (tmp_path / "b.trace").write_text(other)
    renamed = [
        (tuple(re.sub(r"\w+", lambda m: f"x{names.index(m[0])}y" if m[0] in names else m[0], rule) for rule in (*c.layouts, *c.locks)), c.kind)
        for c in suggested(tmp_path / "a.trace")
    ]
    assert renamed and [((*c.layouts, *c.locks), c.kind) for c in suggested(tmp_path / "b.trace")] == renamed


def field(name, offset, size):
    return SharedField("o", name, offset, size, (), 1, 0, 0, 0, 0, 0, (1,), (0,), 0, 0.0, 0.0, 0.0, 0.0, 0.0, "")


def test_moved_fields_are_aligned_and_never_cross_a_line():
    """An object at 32 mod 64 with 96 bytes ends at a line; 16 + 8 + 4 bytes follow each other from there, seven of 16 need a second line."""
    item = PlacedObject("o", "s", "shared", 0x1020, 96, 0, 1)
    assert moves([field("a", 0, 4), field("b", 4, 8), field("c", 16, 16)], item, 64) == ("s.c@96", "s.b@112", "s.a@120")
    many = [field(f"f{i}", 24 * i, 24) for i in range(3)]
    assert moves(many, item, 64) == ("s.f0@96", "s.f1@120", "s.f2@160")


def test_a_choice_proposes_what_is_not_on(tmp_path):
    path = tmp_path / "w.trace"
    path.write_text(LOCKED)
    choices = workload_choices(str(path))
    point = Point("t4240", str(path), variants=("idle_loop",))
    offered = {c.variants[0]: c for c in variant_candidates(choices, point)}
    assert set(offered) == {"slower", "normal"}
    assert offered["normal"].applied(point).variants == ("normal",) and offered["slower"].applied(point).variants == ("idle_loop", "slower")


def test_a_lock_is_replaced_once(tmp_path):
    path = tmp_path / "w.trace"
    path.write_text(LOCKED)
    candidate = next(c for c in suggested(path) if c.locks == ("thing.lock=mcs",))
    assert candidate.applied(Point("t4240", str(path), locks=("thing.lock=ttas", "a.b=tas"))).locks == ("a.b=tas", "thing.lock=mcs")


# ---- rounds, command


def test_a_second_round_goes_on_from_what_helped_and_gains_compare_with_the_start(tmp_path):
    """Two counters, the first updated four times as often: taking it apart leaves the second, taking both apart leaves nothing."""
    two = COUNTER.replace("object total stats shared", "object total stats shared\nobject other stats shared")
    two = two.replace("    atomic_inc total.hits\n", "    atomic_inc total.hits\n" * 4 + "    atomic_inc other.hits\n")
    advice = found(tmp_path, two, rounds=2)
    single = max(t.gain.mean for t in advice.rounds[0].trials if t.candidate.kind == Kind.PER_CPU)
    both = [t for t in advice.rounds[1].trials if {r for s in t.steps for r in s.layouts} == {"total:per-cpu", "other:per-cpu"}]
    assert single > 1.0 and len(both) == 1 and both[0].gain.low > 1.2 * single  # the same pair in another order is not tried twice
    assert both[0].rate.mean == pytest.approx(sum(s["iterations_per_second"] for s in advice.start) / 2 * (1 + both[0].gain.mean), rel=0.05)


def test_only_finalists_get_all_seeds(tmp_path):
    lines = "".join(f"variant v{i}\n    param pause{i} 1\n" for i in range(FINALISTS + 2))
    advice = found(tmp_path, COUNTER.replace("path count", lines + "path count"))
    runs = [t.gain.runs for t in advice.rounds[0].trials]
    assert len(runs) == FINALISTS + 4 and sorted(runs, reverse=True) == [2] * FINALISTS + [1] * 4


def test_the_command_prints_and_writes_the_same(tmp_path, capsys):
    (tmp_path / "w.trace").write_text(COUNTER)
    arguments = ["advise", "t4240", str(tmp_path / "w.trace"), "--cpus", "4", "--seeds", "2", "--rounds", "1", "--jobs", "2"]
    assert main([*arguments, "--json", str(tmp_path / "a.json")]) == 0
    out = capsys.readouterr().out
    document = json.loads((tmp_path / "a.json").read_text())
    trials = document["rounds"][0]["trials"]
    assert [t["gain"]["mean"] for t in trials] == sorted((t["gain"]["mean"] for t in trials), reverse=True)
    for trial in trials:
        assert f"{100 * trial['gain']['mean']:+.1f}%" in out and trial["options"] in out
    assert document["rounds"][0]["limits"][0]["line"] == "total+0" and "most: " in out


def test_a_recorded_trace_cannot_be_changed(capsys):
    assert main(["advise", "t4240", "recorded/e6500-vlan-pmtu-120.mtc.xz"]) == 2
    assert "is a recorded trace: its layout and its locks are fixed" in capsys.readouterr().err


def test_a_start_that_does_nothing_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="completes no iteration"):
        found(tmp_path, PRIVATE, measure_ns=0.5, warmup_ns=0.0)


@pytest.mark.slow
def test_ipv6_forwarding_at_24_cpus():
    """R1: the readers' move, a line for the refcount, routes per CPU and gathered counts are found from the run alone; the last three help a lot."""
    point = Point("t4240", "ipv6_fwd", cpus=24, measure_ns=150_000.0)
    advice = advise(point, seeds=1, rounds=1)
    gains = {" ".join(t.candidate.layouts): t.gain.mean for t in advice.rounds[0].trials if t.candidate.layouts}
    assert advice.rounds[0].lines[0][1].label == "route+128"
    assert "rt6_info.rt6i_gateway@384 rt6_info.dst.rt6_next@400" in gains and "table:per-cpu" in gains
    for change in ("rt6_info.dst.__refcnt:own-line", "route:per-cpu", "rt6_info.dst.__refcnt:batch=32"):
        assert gains[change] > 0.4, gains
    assert {t.candidate.variants for t in advice.rounds[0].trials} >= {("percpu_route",), ("rcu_table",), ("jiffy_lastuse",)}
