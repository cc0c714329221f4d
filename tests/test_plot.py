"""cohsim plot: what is drawn, what is written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import synthetic
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cohsim import core_to_core
from cohsim.cli.main import main
from cohsim.errors import InputError
from cohsim.experiment import prepare
from cohsim.report.c2c import shared_lines
from cohsim.report.plots import canvas, runs, scaling
from cohsim.results.hdf5 import write_result
from cohsim.results.result import Result
from cohsim.sweep import Outcome, SweepResult, usl_fit


@pytest.fixture(scope="module")
def result() -> Result:
    return synthetic.result()


@pytest.fixture
def file(result: Result, tmp_path: Path) -> Path:
    write_result(result, tmp_path / "out.h5")
    return tmp_path / "out.h5"


def test_profile_bars_are_the_shares_of_busy_time(result: Result) -> None:
    """Busy: 600 us on thread 0, 1000 us on thread 1. atomic_inc: 300 + 400 + 300 us of it, dst_release 500 us, forward 100 us."""
    axes = runs.profiles([result], "primitives").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["atomic_inc", "dst_release", "forward"]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([1000 / 16, 500 / 16, 100 / 16])
    inlined = runs.profiles([result], "functions").axes[0]
    assert [bar.get_width() for bar in inlined.patches] == pytest.approx([1500 / 16, 100 / 16])


def test_two_profiles_stand_side_by_side(result: Result) -> None:
    axes = runs.profiles([result, result], "primitives", top=2).axes[0]
    assert len(axes.patches) == 4, "two names of two results"
    first, second = axes.patches[0], axes.patches[2]
    assert first.get_y() < second.get_y() and second.get_y() >= first.get_y() + first.get_height()


def test_utilisation_stacks_to_the_whole_window(result: Result) -> None:
    axes = runs.utilization(result).axes[0]
    tops = [0.0, 0.0]
    for bar in axes.patches:
        cpu = round(bar.get_x() + bar.get_width() / 2)
        assert bar.get_y() == pytest.approx(tops[cpu]), "each category begins where the one below ends"
        tops[cpu] += bar.get_height()
    assert tops == pytest.approx([100, 100])
    last = axes.patches[-2:]
    assert [bar.get_height() for bar in last] == pytest.approx([40, 0]), "idle is on top: thread 0 idles for 0.4 of 1 ms"


def test_transfers_are_those_between_nodes(result: Result) -> None:
    axes = runs.transfers(result).axes[0]
    drawn = axes.images[0].get_array()
    assert drawn[0, 1] == 700 and drawn[1, 0] == 600
    assert drawn.mask.tolist() == [[True, False], [False, True]]
    assert sorted(text.get_text() for text in axes.texts) == ["600", "700"]


def test_takes_of_a_line_are_those_that_were_recorded() -> None:
    real = prepare("corei7", "micro/atomic_inc", cpus=3, warmup_ns=0.0, measure_ns=5_000.0).run()
    line = next(line for line in shared_lines(real) if line.label == "counter+0")
    expected = np.zeros((3, 3))
    for take in line.cpu_takers:
        if take.holder >= 0:
            expected[take.holder, take.taker] += take.count
    drawn = runs.takes(real, "counter+0").axes[0].images[0].get_array()
    assert drawn.filled(0).tolist() == expected.tolist() and expected.sum() > 20
    with pytest.raises(InputError, match="no line 'counter0'; did you mean 'counter.0'"):
        runs.takes(real, "counter0")


def test_histograms_have_a_panel_for_each_level_that_served(tmp_path: Path) -> None:
    data = synthetic.run_data()
    data.latency_hist[:] = 0
    data.latency_hist[1, 2] = 30  # l1, 4 to 8 cycles
    data.latency_hist[6, 7] = 5  # remote_dirty, 128 to 256 cycles
    panels = runs.histograms(synthetic.result(data)).axes
    assert [panel.get_ylabel() for panel in panels] == ["l1", "remote_dirty"]
    assert [bar.get_height() for bar in panels[0].patches] == [0, 0, 30, 0, 0, 0, 0, 0]
    assert [bar.get_height() for bar in panels[1].patches][7] == 5
    assert panels[1].get_xticklabels()[7].get_text() == "128"
    data.latency_hist[:] = 0
    assert "no memory operation" in runs.histograms(synthetic.result(data)).texts[-1].get_text()


@pytest.mark.parametrize(("numbers", "text"), [([0, 1, 2, 7], "0-2,7"), ([5], "5"), ([], "")])
def test_ranges(numbers: list[int], text: str) -> None:
    assert runs.ranges(numbers) == text


# ------------------------------------------------------------------------------------------------------------ scaling


def sweep(**axes: list) -> SweepResult:
    """Every point on the law lambda 100, sigma 0.1, kappa 0.01 (seed s: times 1 + (s - 1) / 10)."""
    fixed = {"machine": "m", "workload": "w", "fixed": {}}
    found = SweepResult({**fixed, "axes": axes})
    outcomes = {}
    for number, point in enumerate(found.points):
        n, seed = point["inputs"].get("cpus", 1), point["inputs"].get("seed", 1)
        rate = 100 * n / (1 + 0.1 * (n - 1) + 0.01 * n * (n - 1)) * (1 + (seed - 1) / 10)
        outcomes[number] = Outcome("done", summary={"throughput_bps": None, "iterations_per_second": rate})
    return SweepResult(found.definition, outcomes)


def test_scaling_shows_points_and_the_law_through_them() -> None:
    """n / (1 + 0.1 (n-1) + 0.01 n (n-1)) is highest at sqrt(0.9 / 0.01) = 9.49 CPUs."""
    axes = scaling.draw(scaling.of_sweep(sweep(cpus=[8, 1, 4, 2]), Path("s.h5"))).axes[0]
    points, fitted = axes.lines
    assert points.get_xdata().tolist() == [1, 2, 4, 8]
    assert points.get_ydata() == pytest.approx([100, 200 / 1.12, 400 / 1.42, 800 / 2.26])
    x, y = fitted.get_xdata(), fitted.get_ydata()
    assert y == pytest.approx(100 * x / (1 + 0.1 * (x - 1) + 0.01 * x * (x - 1)), rel=1e-4)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0] == "emulated" and "σ 0.1, coherence κ 0.01, highest at 9.5 CPUs" in labels[1]


def test_scaling_has_a_curve_for_each_alternative_and_an_interval_over_seeds() -> None:
    drawn = scaling.of_sweep(sweep(cpus=[1, 2, 4], variant=["none", "fast"], seed=[1, 3]), Path("s.h5"))
    assert [curve.label for curve in drawn.curves] == ["variant none", "variant fast"]
    assert drawn.curves[0].rates[0].mean == pytest.approx(110)  # 100 and 120
    axes = scaling.draw(drawn).axes[0]
    bar = axes.collections[0].get_segments()[0][:, 1]
    assert bar[1] - bar[0] == pytest.approx(2 * 12.706 * 10, rel=1e-3)  # Student t with one degree of freedom, standard error 10
    assert "mean of 2 seeds" in axes.get_legend().get_texts()[0].get_text()


def test_too_few_points_get_no_law() -> None:
    axes = scaling.draw(scaling.of_sweep(sweep(cpus=[1, 2]), Path("s.h5"))).axes[0]
    assert "no law fitted: 2 CPU counts" in axes.get_legend().get_texts()[1].get_text()


def test_law_that_falls_at_once_is_not_said_to_rise() -> None:
    fit = usl_fit([1, 2, 4], [100, 20, 16])
    assert fit.sigma > 1 and "falls from the second CPU on" in scaling.law(fit, "bit/s")


def test_scaling_of_results_that_do_not_belong_together(result: Result) -> None:
    other = synthetic.result(packets=False)
    other = Result({**other.data, "/run/workload": "another"}, other.host)
    with pytest.raises(InputError, match="no curve together"):
        scaling.of_results([result, other])
    with pytest.raises(InputError, match="two results with 2 CPUs"):
        scaling.of_results([result, result])


@pytest.mark.parametrize(
    ("axes", "message"),
    [({"seed": [1, 2]}, "no axis of CPU counts"), ({"cpus": [1], "variant": [str(n) for n in range(9)]}, "9 curves, more than the 8")],
)
def test_sweep_that_makes_no_picture(axes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        scaling.of_sweep(sweep(**axes), Path("s.h5"))


def test_unfinished_sweep_says_so() -> None:
    whole = sweep(cpus=[1, 2, 4, 8])
    part = SweepResult(whole.definition, {n: o for n, o in whole.outcomes.items() if n < 3})
    assert "3 of 4 points" in scaling.of_sweep(part, Path("s.h5")).title
    with pytest.raises(InputError, match="no point of the sweep is finished"):
        scaling.of_sweep(SweepResult(whole.definition), Path("s.h5"))


def test_scaling_command_on_a_sweep_and_on_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    short = ["--warmup", "1us", "--measure", "5us"]
    assert main(["sweep", "corei7", "micro/atomic_inc", "--cpus", "1-3", "-o", "s.h5", "--jobs", "1", *short]) == 0
    assert main(["plot", "scaling", "s.h5", "-o", "s.svg"]) == 0
    for n in (1, 2):
        assert main(["run", "corei7", "micro/atomic_inc", "--cpus", str(n), "-o", f"{n}.h5", *short]) == 0
    assert main(["plot", "scaling", "2.h5", "1.h5", "-o", "r.svg"]) == 0
    assert Path("s.svg").stat().st_size > 5000 and Path("r.svg").stat().st_size > 5000


# ------------------------------------------------------------------------------------------------------- core to core


@pytest.fixture(scope="module")
def i7() -> np.ndarray:
    return core_to_core.measure("corei7", "ping-pong")


def test_hand_offs_agree_with_the_workload_run_alone(i7: np.ndarray) -> None:
    """Measured a second way: a whole experiment, pinned, as `cohsim run` does it."""
    for pin in ((0, 1), (0, 4)):
        alone = prepare("corei7", "micro/ping_pong", pin=pin).run()
        one_way = alone.number("/run/measured_fs") / 1e6 / int(alone.array("/threads/iterations")[0]) / 2
        assert i7[pin] == pytest.approx(one_way, rel=0.02)


def test_siblings_are_near_and_cores_are_alike(i7: np.ndarray) -> None:
    """CPUs n and n+4 of the i7 share a core; all cores have the same distance."""
    assert np.isnan(np.diag(i7)).all() and (i7 == i7.T)[~np.eye(8, dtype=bool)].all()
    siblings = np.array([i7[n, n + 4] for n in range(4)])
    others = np.array([i7[a, b] for a in range(8) for b in range(8) if a % 4 != b % 4])
    assert np.ptp(siblings) < 0.5 and np.ptp(others) < 0.5 and siblings.max() < others.min() / 2


def test_modified_load_costs_what_the_machine_file_says() -> None:
    """snoop.remote_dirty = 83 cycles at 2.667 GHz is 31.1 ns, and one dispatch of half a cycle; other values change it."""
    assert core_to_core.measure("corei7", "modified")[0, 1] == pytest.approx(83.5 * 0.375, rel=0.02)
    slower = core_to_core.measure("corei7", "modified", ("snoop.remote_dirty=123 cycles",))
    assert slower[0, 1] == pytest.approx(123.5 * 0.375, rel=0.02)


# ------------------------------------------------------------------------------------------------------------ command


@pytest.mark.parametrize("kind", ["profile", "utilization", "transfers", "histogram"])
def test_each_kind_writes_a_picture(kind: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / f"{kind}.png"
    assert main(["plot", kind, str(file), "-o", str(target)]) == 0
    assert capsys.readouterr().out.strip() == str(target)
    image = matplotlib.image.imread(target)[:, :, :3]
    assert image.shape[0] > 200 and len(np.unique((image * 15).astype(int).reshape(-1, 3), axis=0)) > 8, "more than text on white"


@pytest.mark.parametrize(("suffix", "magic"), [(".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")])
def test_formats_and_same_picture_twice(suffix: str, magic: bytes, file: Path, tmp_path: Path) -> None:
    for name in "ab":
        assert main(["plot", "profile", str(file), str(file), "-o", str(tmp_path / (name + suffix))]) == 0
    first, second = ((tmp_path / (name + suffix)).read_bytes() for name in "ab")
    assert first.startswith(magic) and first == second


def test_latency_command(tmp_path: Path) -> None:
    assert main(["plot", "latency", "corei7", "--load", "modified", "--no-progress", "-o", str(tmp_path / "l.png")]) == 0
    assert (tmp_path / "l.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profile", "FILE", "-o", "out.gif"], "--output: 'out.gif' does not say which kind of picture; end the name in .png, .svg, .pdf"),
        (["profile", "FILE", "-o", "nowhere/out.png"], "--output: directory nowhere does not exist; create it first"),
        (["profile", "FILE", "FILE", "FILE", "-o", "out.png"], "3 results given, at most two fit side by side"),
        (["utilization", "absent.h5", "-o", "out.png"], "absent.h5"),
        (["latency", "t4241", "-o", "out.png"], "did you mean 't4240'?"),
        (["latency", "t4240", "--set", "caches.l2.hit=x", "-o", "out.png"], "caches.l2.hit"),
    ],
)
def test_wrong_use_is_one_line(
    arguments: list[str], message: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plot", *(str(file) if a == "FILE" else a for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.h5"], "nothing half written"


def test_unwritable_picture_leaves_the_old_one(result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "p.png"
    target.write_bytes(b"old")
    figure = runs.profiles([result])

    def fails(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fails)
    with pytest.raises(OSError, match="disk full"):
        canvas.save(figure, target)
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("width", [4.2, 6.0, 10.0])
def test_a_title_stays_inside_its_figure(width: float) -> None:
    figure = canvas.new_figure(width, 4.0, "corei7: hand-off of a word by compare-and-swap, one way\nnanoseconds: 7.9 to 30.2, median 30.2")
    FigureCanvasAgg(figure).draw()
    assert figure._suptitle.get_window_extent().x1 <= figure.bbox.x1
