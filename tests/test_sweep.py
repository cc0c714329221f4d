"""Sweeps: definition, file, resume, local processes, intervals, the Universal Scalability Law. The cluster is in test_sweep_dask.py."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from cohsim.cli.main import main
from cohsim.cli.sweep import build_sweep
from cohsim.errors import InputError, SimulationError
from cohsim.sweep import LocalBackend, Outcome, Point, SerialBackend, Sweep, estimate, load_sweep, run_point, run_points, run_sweep, usl_fit
from cohsim.sweep.definition import difference
from cohsim.sweep.point import DONE, FAILED, MISSING
from cohsim.sweep.run import WorkersLost
from cohsim.sweep.statistics import combine, gain, student_t
from cohsim.sweep.store import Journal, journal_path

BASE = Point("t4240", "micro/atomic_inc", warmup_ns=1_000.0, measure_ns=5_000.0)
SWEEP = Sweep(BASE, {"caches.l2.hit": ("10cycles", "14cycles"), "cpus": (1, 2, 4), "seed": (1, 2)})
TINY_POOL = """cohsim-trace 1
object counter bytes 8 shared
path one
    atomic_inc counter+0:8
run
    source 1Mpps frame 64B pool 3
    on packet one
    warmup 1us measure 5us
"""


class Fake:
    """Outcomes without simulation; remembers what it was asked for, and can stop early."""

    def __init__(self, limit: int = 10**6, error: BaseException | None = None):
        self.asked: list[Point] = []
        self.limit, self.error = limit, error

    def run(self, points):
        for number, point in enumerate(points):
            if number == self.limit:
                raise self.error or KeyboardInterrupt
            self.asked.append(point)
            yield number, outcome(point)


def outcome(point: Point) -> Outcome:
    summary = {
        "seed": point.seed,
        "iterations_per_second": 1000.0 * (point.cpus or 1) + point.seed,
        "packet_rate_pps": None,
        "throughput_bps": None,
        "ns_per_iteration_per_cpu": 5.0,
        "cpu_utilization": 1.0,
        "dropped": None,
        "tx_dropped": None,
        "time_shares": {"issue": 1.0},
        "functions": [{"name": "f", "share": 1.0}],
        "primitives": [{"name": "f", "share": 0.25}, {"name": "g", "share": 0.75}],
        "lines": [],
    }
    return Outcome(DONE, "", f"{point.cpus}/{point.seed}/{point.overrides}", summary, 0.5)


# ---- definition


def test_points_are_the_product_of_the_axes_with_the_last_fastest():
    points = SWEEP.points
    assert len(points) == 12
    assert [(p.overrides, p.cpus, p.seed) for p in points[:3]] == [
        (("caches.l2.hit=10cycles",), 1, 1),
        (("caches.l2.hit=10cycles",), 1, 2),
        (("caches.l2.hit=10cycles",), 2, 1),
    ]
    assert points[-1] == dataclasses.replace(BASE, overrides=("caches.l2.hit=14cycles",), cpus=4, seed=2)


def test_alternatives_of_lists():
    sweep = Sweep(dataclasses.replace(BASE, variants=("x",)), {"variant": ("none", "a+b")})
    assert [p.variants for p in sweep.points] == [("x",), ("x", "a", "b")]


def options_of(machine="m", workload="w", **changes) -> Sweep:
    """What the command makes of its options."""
    options = {"cpus": None, "seeds": 1, "seed": 1, "settings": (), "variants": (), "layouts": (), "locks": (), "isa_options": ()}
    return build_sweep(machine, workload, **(options | {"kernel": None, "warmup_ns": None, "measure_ns": None, "load": None} | changes))


def test_options_one_value_is_fixed_and_several_are_an_axis():
    settings = ("a=1", "b=[1,2],[3]")
    sweep = options_of(cpus=(1, 2), seeds=2, seed=5, settings=settings, variants=("none,x", "y+z"), layouts=("s.f:own-line+o:pad",))
    assert sweep.axes == {"variant": ("none", "x", "y+z"), "b": ("[1,2]", "[3]"), "cpus": (1, 2), "seed": (5, 6)}
    assert sweep.base == Point("m", "w", seed=5, overrides=("a=1",), layouts=("s.f:own-line", "o:pad"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cpus": (1, 1)}, "--cpus: 1 is named twice"),
        ({"settings": ("a=1", "a=2")}, "--set: a is given twice"),
        ({"settings": ("a",)}, "--set: 'a' has no value"),
        ({"load": "max-no-loss"}, "--load: max-no-loss is a search"),
        ({"variants": ("x,,y",)}, "--variant: an empty value"),
        ({"variants": ("x", "x")}, "--variant: x is named twice"),
        ({"locks": ("a.b=mcs,a.b=mcs",)}, "--lock: a.b=mcs is named twice"),
    ],
)
def test_options_that_contradict(change, message):
    with pytest.raises(InputError) as error:
        options_of(**change)
    assert str(error.value).startswith(message)


def test_every_axis_value_is_checked_before_anything_runs():
    sweep = Sweep(Point("t4240", "micro/spinlock"), {"variant": ("mcs", "tax"), "caches.l2.hit": ("14cycles", "14"), "cpus": (4, 25)})
    with pytest.raises(InputError) as error:
        sweep.check()
    text = str(error.value)
    assert len(error.value.problems) == 3 and "'tax'" in text and "caches.l2.hit" in text and "25 CPUs" in text


def test_difference_of_definitions(tmp_path):
    copy = tmp_path / "other.trace"
    copy.write_text((Path(__file__).parent.parent / "workloads/micro/atomic_inc.trace").read_text())
    one = SWEEP.describe()
    same = Sweep(dataclasses.replace(BASE, workload=str(copy)), SWEEP.axes).describe()
    assert difference(one, same) is None  # the contents count, not the name
    copy.write_text(copy.read_text() + "# more\n")
    assert "workload" in difference(one, Sweep(dataclasses.replace(BASE, workload=str(copy)), SWEEP.axes).describe())
    axes = {**SWEEP.axes, "cpus": tuple(range(1, 25))}
    assert difference(one, Sweep(BASE, axes).describe()) == "cpus 1,2,4 instead of 1-24"
    longer = Sweep(dataclasses.replace(BASE, measure_ns=6_000.0), SWEEP.axes).describe()
    assert difference(json.loads(json.dumps(one)), longer) == "measure_ns 5000.0 instead of 6000.0"


# ---- file and resume


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path):
    path = tmp_path / "s.h5"
    first, second = Fake(limit=5), Fake()
    with pytest.raises(KeyboardInterrupt):
        run_sweep(SWEEP, path, first)
    assert not journal_path(path).exists()
    part = load_sweep(path)
    assert (part.count(DONE), part.count(MISSING)) == (5, 7) and part.points[5]["summary"] is None
    result = run_sweep(SWEEP, path, second)
    assert first.asked + second.asked == SWEEP.points
    assert [p["digest"] for p in result.points] == [outcome(p).digest for p in SWEEP.points]
    third = Fake()
    run_sweep(SWEEP, path, third)
    assert third.asked == []


def test_a_kill_leaves_what_was_done_and_a_line_cut_short_is_dropped(tmp_path):
    path = tmp_path / "s.h5"
    journal = Journal(path, SWEEP)
    for number in (3, 7):
        journal.add(number, outcome(SWEEP.points[number]))
    journal._file.write('{"point": 9, "status": "do')  # the kill
    journal._file.close()
    assert not path.exists()
    assert load_sweep(path).outcomes == {3: outcome(SWEEP.points[3]), 7: outcome(SWEEP.points[7])}
    backend = Fake()
    result = run_sweep(SWEEP, path, backend)
    assert backend.asked == [p for n, p in enumerate(SWEEP.points) if n not in (3, 7)]
    assert result.count(DONE) == 12 and load_sweep(path).points == result.points


def test_another_definition_is_refused_and_changes_nothing(tmp_path):
    path = tmp_path / "s.h5"
    run_sweep(SWEEP, path, Fake())
    before = path.read_bytes()
    backend = Fake()
    with pytest.raises(InputError, match="holds another sweep: seed 1,2 instead of 1-3; give another name"):
        run_sweep(Sweep(BASE, {**SWEEP.axes, "seed": (1, 2, 3)}), path, backend)
    assert path.read_bytes() == before and backend.asked == [] and not journal_path(path).exists()


def test_two_sweeps_cannot_write_one_file(tmp_path):
    journal = Journal(tmp_path / "s.h5", SWEEP)
    with pytest.raises(InputError, match="another cohsim sweep is writing it"):
        Journal(tmp_path / "s.h5", SWEEP)
    journal.close()
    Journal(tmp_path / "s.h5", SWEEP).close()


@pytest.mark.parametrize(("content", "message"), [(b"", "cannot be read as a sweep"), (b"\x89HDF\r\n\x1a\ncut", "cannot be read as a sweep")])
def test_files_that_are_no_sweep(tmp_path, content, message):
    path = tmp_path / "s.h5"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_sweep(path)
    with pytest.raises(InputError, match="no such file"):
        load_sweep(tmp_path / "none.h5")


def test_the_table_has_one_array_per_headline_over_the_axes(tmp_path):
    path = tmp_path / "s.h5"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(SWEEP, path, Fake(limit=11))
    with h5py.File(path) as file:
        rate = file["iterations_per_second"]
        assert [d.label for d in rate.dims] == ["caches.l2.hit", "cpus", "seed"]
        assert [d[0].name for d in rate.dims] == ["/caches.l2.hit", "/cpus", "/seed"]
        assert rate[1, 2, 0] == 4001.0 and math.isnan(rate[1, 2, 1]) and rate.attrs["unit"] == "1/s"
        assert file["cpus"][:].tolist() == [1, 2, 4] and file["status"][1, 2].tolist() == [1, 0]
        share = file["primitive_share"]
        assert share.shape == (2, 3, 2, 2) and share[0, 0, 0].tolist() == [0.25, 0.75]
        assert file["primitive"].asstr()[:].tolist() == ["f", "g"]


def test_curves_combine_the_seeds(tmp_path):
    curves = run_sweep(SWEEP, tmp_path / "s.h5", Fake()).curves("cpus")
    assert [c.at for c in curves] == [{"caches.l2.hit": "10cycles"}, {"caches.l2.hit": "14cycles"}]
    assert curves[0].values == [1, 2, 4] and [e.mean for e in curves[0].estimates] == [1001.5, 2001.5, 4001.5]


# ---- running


def test_a_failing_point_is_recorded_and_the_rest_is_done(tmp_path, capsys):
    """A pool of 3 buffers is enough for 1 and 2 CPUs, which the core finds out."""
    (tmp_path / "pool.trace").write_text(TINY_POOL)
    code = main(["sweep", "corei7", str(tmp_path / "pool.trace"), "--cpus", "1-4", "-o", str(tmp_path / "s.h5"), "--json", str(tmp_path / "s.json")])
    out = capsys.readouterr()
    assert code == 1 and "2 of 4 points failed" in out.err
    assert "failed: cpus 3, seed 1: pool: a pool of 3 buffers is too small for 3 CPUs" in out.out
    result = load_sweep(tmp_path / "s.h5")
    assert [p["status"] for p in result.points] == [DONE, DONE, FAILED, FAILED]
    assert "too small for 4 CPUs" in result.points[3]["message"]
    rows = json.loads((tmp_path / "s.json").read_text())["rows"]
    assert [(row["at"]["cpus"], row["done"], len(row["failed"])) for row in rows] == [(1, 1, 0), (2, 1, 0), (3, 0, 1), (4, 0, 1)]


def test_a_deadlock_is_a_failed_outcome_with_its_report(monkeypatch):
    def stuck(*_, **__):
        raise SimulationError("deadlock: no CPU can go on", "CPU 0 waits")

    monkeypatch.setattr("cohsim.experiment.simulate", stuck)
    assert run_point(BASE) == Outcome(FAILED, "deadlock: no CPU can go on\nCPU 0 waits")


def test_processes_give_what_this_process_gives():
    points = SWEEP.points[:4]
    here, there = run_points(points, SerialBackend()), run_points(points, LocalBackend(2))
    assert [o.digest for o in here] == [o.digest for o in there] and len({o.digest for o in here}) == 4
    assert [o.summary for o in here] == [o.summary for o in there]


@dataclasses.dataclass(frozen=True)
class Deadly(Point):
    """Kills its worker; once, if ``marker`` is given, else always."""

    marker: str = ""

    def prepare(self):
        if not self.marker or not Path(self.marker).exists():
            if self.marker:
                Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return BASE.prepare()


def test_a_worker_that_dies_costs_only_time(tmp_path):
    expected = run_point(BASE).digest
    outcomes = run_points([BASE, Deadly("", "", marker=str(tmp_path / "died")), BASE], LocalBackend(2))
    assert (tmp_path / "died").exists() and [o.digest for o in outcomes] == [expected] * 3


def test_a_point_that_always_kills_its_worker_does_not_stop_the_others():
    yielded = dict(LocalBackend(2).run([Deadly("", ""), BASE]))
    assert yielded[0] is None and yielded[1].status == DONE
    with pytest.raises(WorkersLost):
        run_points([Deadly("", "")], LocalBackend(1))


def command(path: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "cohsim", "sweep", "t4240", "micro/atomic_inc", "--cpus", "4", "--seeds", "12", "--measure", "600us", "--jobs", "1",
            "-o", str(path), *more]


def begun(path: Path) -> bool:
    try:
        return bool(load_sweep(path).outcomes)
    except InputError:  # not there yet
        return False


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_killed_from_outside_and_run_again(tmp_path, checkout, sign, code):
    path = tmp_path / "s.h5"
    process = subprocess.Popen(command(path), cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not begun(path):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(sign)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    done = load_sweep(path).count(DONE)
    assert 1 <= done < 12 and journal_path(path).exists() == (sign == signal.SIGKILL)
    if sign == signal.SIGINT:
        assert err.splitlines()[-1] == "interrupted" and "Traceback" not in err
    backend = Fake()
    finished = run_sweep(options_of("t4240", "micro/atomic_inc", cpus=(4,), seeds=12, measure_ns=600_000.0), path, backend)
    assert len(backend.asked) == 12 - done and finished.count(DONE) == 12


def test_input_errors_of_the_command(tmp_path, capsys):
    out = str(tmp_path / "s.h5")
    for arguments, message in (
        (["--cpus", "25"], "--cpus: 25 CPUs asked for"),
        (["--dask", "tcp://127.0.0.1:1", "--jobs", "2"], "--jobs: is for this host"),
        (["--set", "caches.l2.hot=1"], "caches.l2.hot"),
    ):
        assert main(["sweep", "t4240", "micro/atomic_inc", "-o", out, *arguments]) == 2
        assert message in capsys.readouterr().err
    assert main(["sweep", "t4240", "micro/atomic_inc"]) == 2
    assert list(tmp_path.iterdir()) == []


# ---- run --seeds


def test_run_with_seeds_is_the_mean_of_the_runs(tmp_path, capsys):
    arguments = ["run", "t4240", "micro/atomic_inc", "--cpus", "4", "--warmup", "1us", "--measure", "5us"]
    assert main([*arguments, "--seeds", "3", "--seed", "7", "--json", str(tmp_path / "s.json")]) == 0
    text = capsys.readouterr().out
    document = json.loads((tmp_path / "s.json").read_text())
    alone = []
    for seed in (7, 8, 9):
        assert main([*arguments, "--seed", str(seed), "--json", "-"]) == 0
        alone.append(json.loads(capsys.readouterr().out))
    assert document["seeds"] == [7, 8, 9]
    rates = [run["iterations_per_second"] for run in alone]
    assert [run["iterations_per_second"] for run in document["runs"]] == rates
    found = document["headlines"]["iterations_per_second"]
    assert found["mean"] == pytest.approx(sum(rates) / 3)
    assert found["ci95"] == pytest.approx(4.302653 * np.std(rates, ddof=1) / math.sqrt(3), rel=1e-5)  # t(2 degrees, 97.5 %)
    atomics = [next(row["share"] for row in run["primitives"] if row["name"] == "atomic_inc") for run in alone]
    assert next(row for row in document["primitives"] if row["name"] == "atomic_inc")["share"]["mean"] == pytest.approx(sum(atomics) / 3)
    assert document["lines"][0]["object"] == "counter" and "packet_rate_pps" not in document["headlines"]
    assert "3 seeds (7 to 9)" in text and "±" in text


def test_seeds_and_output_exclude_each_other(tmp_path, capsys):
    assert main(["run", "t4240", "micro/atomic_inc", "--seeds", "2", "-o", str(tmp_path / "a.h5")]) == 2
    assert "--output: holds one run, --seeds makes several" in capsys.readouterr().err


# ---- statistics


def test_interval_by_hand():
    """1, 2, 3, 4: mean 2.5, sample deviation sqrt(5/3), t with 3 degrees of freedom 3.182446."""
    e = estimate([1.0, 2.0, 3.0, 4.0])
    assert e.mean == 2.5 and e.half_width == pytest.approx(3.182446 * math.sqrt(5 / 3) / 2, rel=1e-6)
    assert (e.low, e.high) == (2.5 - e.half_width, 2.5 + e.half_width)
    assert estimate([7.0]).half_width is None and estimate([7.0, 7.0]).half_width == 0.0
    assert student_t(1) == pytest.approx(12.7062, rel=1e-5)


def test_gain_is_taken_seed_by_seed():
    """Each seed gains exactly 10 %, however far the seeds are apart."""
    e = gain([100.0, 1000.0], [110.0, 1100.0])
    assert e.mean == pytest.approx(0.1) and e.half_width == pytest.approx(0.0, abs=1e-12)


def test_a_function_that_a_run_does_not_list_counts_as_zero():
    a, b = outcome(BASE).summary, outcome(BASE).summary
    b["functions"] = [{"name": "other", "share": 0.5}]
    rows = combine([a, b])["functions"]
    assert [(row["name"], row["share"]["mean"]) for row in rows] == [("f", 0.5), ("other", 0.25)]


# ---- Universal Scalability Law


def law(n, lam, sigma, kappa):
    return lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def test_a_law_without_noise_is_found():
    n = np.arange(1, 25)
    fit = usl_fit(n, law(n, 250e3, 0.03, 0.0016))
    assert (fit.lambda_, fit.sigma, fit.kappa) == pytest.approx((250e3, 0.03, 0.0016), rel=1e-6)
    assert fit.peak == pytest.approx(math.sqrt(0.97 / 0.0016)) and fit.r_squared == pytest.approx(1)
    assert fit.peak_rate == pytest.approx(law(fit.peak, 250e3, 0.03, 0.0016)) and fit.rate(8) == pytest.approx(law(8, 250e3, 0.03, 0.0016))


def test_perfect_scaling_lies_on_the_bounds():
    fit = usl_fit([1, 2, 4, 8], [10.0, 20.0, 40.0, 80.0])
    assert (fit.sigma, fit.kappa, fit.peak) == (0.0, 0.0, None) and fit.sigma_stderr is None and fit.kappa_stderr is None
    assert fit.rate(100) == pytest.approx(1000)


def test_standard_errors_cover_the_truth_as_often_as_they_should():
    """Noise of 1 %: the true value lies within one standard error in 68 % of the fits (60 to 76 % of 200 is 2.4 deviations)."""
    n, random = np.arange(1, 25), np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        fit = usl_fit(n, law(n, 1e6, 0.05, 0.002) * (1 + 0.01 * random.standard_normal(24) * 1e6 / law(n, 1e6, 0.05, 0.002)))
        inside += abs(fit.sigma - 0.05) < fit.sigma_stderr
    assert 0.60 < inside / 200 < 0.76


def test_what_cannot_be_fitted():
    for cpus, rates in (([1, 2], [1.0, 2.0]), ([1, 1, 2], [1.0, 1.0, 2.0]), ([1, 2, 3], [1.0, 0.0, 2.0]), ([0, 1, 2], [1.0, 1.0, 2.0])):
        with pytest.raises(ValueError, match="needed|at least 1"):
            usl_fit(cpus, rates)
