"""analysis/ipv6_scaling.py: comparison, output files, and the command as a user runs it."""
from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import matplotlib.image
import pytest
from synthetic import result

import cohsim
from cohsim.results.hdf5 import write_result

ANALYSIS = Path(__file__).resolve().parent.parent / "analysis"
SCRIPT = ANALYSIS / "ipv6_scaling.py"


@pytest.fixture(scope="module")
def scaling() -> ModuleType:
    sys.path.insert(0, str(ANALYSIS))
    try:
        import ipv6_scaling
        return ipv6_scaling
    finally:
        sys.path.remove(str(ANALYSIS))


@pytest.fixture(scope="module")
def published(scaling: ModuleType) -> ModuleType:
    return scaling.published


def summary(cpus: int, gbps: float, functions: dict[str, float], primitives: dict[str, float]) -> dict[str, Any]:
    return {"cpus": cpus, "cpu": None, "throughput_bps": gbps * 1e9, "assumptions": ["one destination"],
            "functions": [{"name": n, "share": s} for n, s in functions.items()],
            "primitives": [{"name": n, "share": s} for n, s in primitives.items()]}


@pytest.fixture
def summaries() -> dict[int, dict[str, Any]]:
    return {8: summary(8, 2.0, {}, {}),
            16: summary(16, 3.63, {"ip6_pol_route": 0.20, "dst_release": 0.15, "ipv6_rcv": 0.06, "_raw_read_lock_bh": 0.03},
                        {"atomic_inc": 0.13, "atomic_dec_return": 0.17, "ip6_finish_output2": 0.06}),
            24: summary(24, 2.1, {"ip6_pol_route": 0.35, "_raw_read_lock_bh": 0.04},
                        {"atomic_inc": 0.30, "atomic_dec_return": 0.29})}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The script as a user starts it, with the cohsim that is under test."""
    where = {**os.environ, "PYTHONPATH": str(Path(cohsim.__file__).resolve().parent.parent)}
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=where)


def test_published_figures_are_those_of_the_report(published):
    """reference_results.md R1; 5.29 and 3.85 Mpacket/s (4.21 and 3.06 with overhead) are kernel_paths.md 1.7."""
    assert published.IPV6_GBPS == {16: 3.3, 24: 2.4}
    shares = {s.symbol: s.by_threads for s in published.IPV6_DEINLINED}
    assert shares["atomic_dec_return"] == {16: 0.1726, 24: 0.3245}
    assert shares["atomic_inc"] == {16: 0.1345, 24: 0.3056}
    assert published.packets_per_second(3.3) == pytest.approx(5.29e6, rel=1e-3)
    assert published.packets_per_second(2.4, overhead_counted=True) == pytest.approx(3.06e6, rel=1e-3)


def test_atomics_explain_the_difference_between_the_two_profiles(published):
    """A typing error in the published figures would show here: de-inlining moves time, it does not make any."""
    inlined = {s.symbol: s.by_threads for s in published.IPV6_INLINED}
    own = {s.symbol: s.by_threads for s in published.IPV6_DEINLINED}
    for threads in (16, 24):
        whole = inlined["ip6_pol_route"][threads] + inlined["dst_release"][threads]
        parts = own["atomic_inc"][threads] + own["atomic_dec_return"][threads] + own["ip6_pol_route"][threads]
        assert parts == pytest.approx(whole, abs=0.02)


def test_rate_errors(scaling, summaries):
    rows = {r.cpus: r for r in scaling.rate_rows(summaries)}
    assert (rows[8].published, rows[8].error, rows[8].relative) == (None, None, None)
    assert rows[16].error == pytest.approx(0.33)
    assert rows[16].relative == pytest.approx(0.1)
    assert rows[24].relative == pytest.approx(-0.125)


def test_shares_compare_listed_and_unlisted_symbols(scaling, published, summaries):
    rows = {r.name: r for r in scaling.share_rows(summaries[16], "functions", published.IPV6_INLINED)}
    assert rows["ip6_pol_route"].error == pytest.approx(0.20 - 0.1959)
    assert rows["__netif_receive_skb_core"].relative == pytest.approx(-1.0), "a listed symbol that never ran is wholly wrong"
    assert rows["_raw_read_lock_bh"].verdict == "below the list, as published"
    assert rows["ipv6_rcv"].verdict == "on the list, published: not"
    assert rows["ipv6_rcv"].published is None and rows["ipv6_rcv"].error is None
    late = {r.name: r for r in scaling.share_rows(summaries[24], "functions", published.IPV6_INLINED)}
    assert late["_raw_read_lock_bh"].verdict == "on the list, published: not", "2.7 % is where the 24-thread list stops"


def test_markdown_states_errors_roles_and_assumptions(scaling, summaries):
    text = scaling.markdown(scaling.compare(summaries), summaries)
    assert "| 16 | 5.82 | 3.63 | 3.30 | +0.33 | +10% | calibrated |" in text
    assert "| 24 | 3.37 | 2.10 | 2.40 | -0.30 | -12% | predicted |" in text
    assert "| 8 | 3.21 | 2.00 |  |  |  |  |" in text
    assert "| `atomic_inc` | 30.00 | 30.56 | -0.56 | -2% |  |" in text
    assert "| `ip6_finish_output2` | 6.00 | < 5.0 |  |  | on the list, published: not |" in text
    assert "- one destination" in text


def test_csv_holds_every_row(scaling, summaries, tmp_path):
    rows = scaling.compare(summaries)
    scaling.write_csv(rows, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(rows)
    line = next(r for r in read if (r["quantity"], r["cpus"], r["name"]) == ("primitives", "24", "atomic_dec_return"))
    assert (float(line["simulated"]), float(line["published"])) == (0.29, 0.3245)
    assert float(line["error"]) == pytest.approx(-0.0345)


def test_picture_shows_both(scaling, summaries, tmp_path):
    """Simulated and published colours both cover some of the picture, also when one of the two profiles is missing."""
    for name, chosen in (("both", summaries), ("one", {n: summaries[n] for n in (8, 24)})):
        scaling.draw(scaling.compare(chosen), tmp_path / f"{name}.png")
        image = matplotlib.image.imread(tmp_path / f"{name}.png")
        for colour in (scaling.SIMULATED, scaling.PUBLISHED):
            wanted = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            assert (abs(image[:, :, :3] - wanted).max(axis=2) < 0.02).sum() > 500, (name, colour)
    assert matplotlib.image.imread(tmp_path / "both.png").shape[1] > matplotlib.image.imread(tmp_path / "one.png").shape[1]


def test_results_are_read_from_hdf5(scaling, tmp_path):
    write_result(result(), tmp_path / "two.h5")
    found = scaling.read_summaries([tmp_path / "two.h5"], None)
    assert list(found) == [2]
    assert found[2]["throughput_bps"] == pytest.approx(2000 / 1e-3 * 100 * 8)
    one = scaling.read_summaries([tmp_path / "two.h5"], 1)
    assert one[2]["throughput_bps"] == found[2]["throughput_bps"], "rates are always those of all CPUs"
    assert one[2]["functions"] != found[2]["functions"], "profiles are those of the CPU asked for"


def test_two_results_of_one_cpu_count_are_refused(scaling, tmp_path):
    for name in ("a.h5", "b.h5"):
        write_result(result(), tmp_path / name)
    with pytest.raises(click.ClickException, match="second result with 2 CPUs"):
        scaling.read_summaries([tmp_path / "a.h5", tmp_path / "b.h5"], None)


def test_result_without_packets_is_refused(scaling, tmp_path):
    write_result(result(packets=False), tmp_path / "loop.h5")
    with pytest.raises(click.ClickException, match="no packet source"):
        scaling.read_summaries([tmp_path / "loop.h5"], None)


def test_command_on_results(tmp_path):
    write_result(result(), tmp_path / "two.h5")
    done = run("-o", tmp_path / "out", tmp_path / "two.h5")
    assert done.returncode == 0, done.stderr
    assert "| 2 | " in done.stdout
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"ipv6_scaling.md", "ipv6_scaling.csv", "ipv6_scaling.png"}
    assert (tmp_path / "out" / "ipv6_scaling.md").read_text() == done.stdout


@pytest.mark.slow
def test_command_makes_the_runs_itself(tmp_path):
    """One CPU alone: nobody contends, so the atomics of the path are cheap and the rate is far below the link's."""
    done = run("-o", tmp_path, "--cpus", "1", "--variant", "rcu_table")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "ipv6_fwd-01.h5").is_file()
    rate = next(line for line in done.stdout.splitlines() if line.startswith("| 1 |"))
    assert 0.2 < float(rate.split("|")[2]) < 1.5, "Mpacket/s"


@pytest.mark.parametrize(("arguments", "message"), [
    (["--cpus", "1,25"], "is not a list of CPU counts"),
    (["--cpus", "1-4"], "is not a list of CPU counts"),
    (["--variant", "rcu_table", "FILE"], "are for new runs"),
    (["--cpus", "1", "--variant", "nonesuch"], "unknown variant 'nonesuch'"),
    (["TEXT"], "cannot be read as HDF5"),
])
def test_wrong_use_is_one_message_and_no_traceback(tmp_path, arguments, message):
    write_result(result(), tmp_path / "two.h5")
    (tmp_path / "text.h5").write_text("no HDF5")
    names = {"FILE": str(tmp_path / "two.h5"), "TEXT": str(tmp_path / "text.h5")}
    done = run("-o", tmp_path / "out", *[names.get(a, a) for a in arguments])
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


# -------------------------------------------------------------------------------------------- counters, overview, all.py


@pytest.fixture(scope="module")
def scripts() -> dict[str, ModuleType]:
    """The modules of analysis/, imported as its scripts import each other."""
    import importlib

    sys.path.insert(0, str(ANALYSIS))
    try:
        names = ("comparison", "x5550_counter", "llsc_counter", "latency_tables", "vlan_forwarding", "all")
        return {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(ANALYSIS))


def test_error_is_relative_to_what_was_measured(scripts):
    row = scripts["comparison"].Row("x", "ns", 20.0, 25.0, "predicted")
    assert row.error == 0.25
    assert row.cells() == ["x", "20.0", "25.0", "ns", "+25.0%", "predicted"]
    unknown = scripts["comparison"].Row("x", "ns", None, 25.0, "predicted")
    assert unknown.error is None and unknown.cells()[1] == ""
    rows = [row, scripts["comparison"].Row("y", "ns", 10.0, 9.5, "predicted"), scripts["comparison"].Row("z", "ns", 10.0, 50.0, "calibrated")]
    assert scripts["comparison"].table(rows)[-1] == "Mean error of the 2 predicted figures: 15%.", "calibrated figures do not count"


def test_growth_is_relative_to_one_thread(scripts):
    module = scripts["llsc_counter"]
    assert module.growth({1: 20.0, 2: 60.0, 4: 200.0}) == {1: 1.0, 2: 3.0, 4: 10.0}
    assert module.above_proportion({1: 1.0, 2: 2.0, 4: 5.0, 8: 12.0}) == 4
    assert module.above_proportion({1: 1.0, 2: 3.0, 4: 4.0, 8: 12.0}) == 8, "must stay above"
    assert module.above_proportion({1: 1.0, 2: 2.0}) is None


def test_published_curves_are_ordered_and_their_means_lie_inside_their_ranges(scripts):
    published = scripts["x5550_counter"].published
    for curve in (published.X5550_ATOMIC, published.X5550_PLAIN, published.X5550_PRIVATE, published.POWER5_ATOMIC):
        assert list(curve) == sorted(curve)
        assert all(s.least <= s.mean <= s.greatest for s in curve.values())
    # hardware.md 2.4: system cost per increment on Power-5, 61.9 ns at 2 threads, 136 at 16
    assert published.POWER5_ATOMIC[2].mean / 2 == pytest.approx(61.9, abs=0.05)
    assert published.POWER5_ATOMIC[16].mean / 16 == pytest.approx(136, abs=0.5)


def test_x5550_comparison_runs_the_emulator(scripts, tmp_path):
    """A lone locked increment is 20 cycles of 2.667 GHz; private counters do not disturb each other; errors are from those figures."""
    found = scripts["x5550_counter"].produce(tmp_path)
    rows = {row.what: row for row in found.rows}
    assert rows["one counter, lock; inc, 1 thread"].emulated == pytest.approx(20 / 2.666667, rel=0.01)
    assert rows["a counter each, lock; inc, 4 threads"].emulated == pytest.approx(20 / 2.666667, rel=0.01)
    assert rows["one counter, lock; inc, 2 threads"].role == "calibrated"
    assert rows["one counter, lock; inc, 3 threads"].role == "predicted" and abs(rows["one counter, lock; inc, 3 threads"].error) < 0.1
    assert len(found.rows) == 24
    assert "| one counter, lock; inc, 1 thread | 7.56 | 7.50 | ns | -0.8% | stated |" in (tmp_path / "x5550_counter.md").read_text()
    assert (tmp_path / "x5550_counter.png").stat().st_size < 150_000


def test_one_command_runs_them_and_writes_the_overview(tmp_path):
    where = {**os.environ, "PYTHONPATH": str(Path(cohsim.__file__).resolve().parent.parent)}
    command = [sys.executable, str(ANALYSIS / "all.py"), "llsc_counter", "latency_tables", "-o", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=where)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "README.md").read_text() == done.stdout
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"README.md", *(f"{n}.{kind}" for n in ("llsc_counter", "latency_tables") for kind in ("md", "png"))}
    assert "growth to 8 threads, Power-5 and T4240" in done.stdout and "](llsc_counter.md)" in done.stdout


def test_every_script_that_compares_is_run_by_the_one_command(scripts):
    compare = {path.stem for path in ANALYSIS.glob("*.py") if "def produce(" in path.read_text(encoding="utf-8")}
    assert compare - {"comparison", "all"} == set(scripts["all"].SCRIPTS)


def test_pictures_in_the_docs_are_small_and_used():
    docs = ANALYSIS.parent / "docs"
    texts = "".join(p.read_text(encoding="utf-8") for p in [docs.parent / "README.md", *docs.glob("*.md")])
    for picture in (docs / "img").iterdir():
        assert picture.stat().st_size < 150_000, picture.name
        assert f"img/{picture.name}" in texts, f"{picture.name} is shown nowhere"


# ----------------------------------------------------------------------------------------------------- VLAN forwarding


def vlan_summary(mpps: float, use: list[float], spin: float = 0.0) -> dict[str, Any]:
    return {"packet_rate_pps": mpps * 1e6, "cpu_utilization": sum(use) / len(use), "cpu_utilization_per_cpu": use, "time_shares": {"spin": spin},
            "dropped": 1200, "paused": 0.25}


def test_vlan_figures_are_those_of_the_two_busiest_cpus(scripts):
    figures = scripts["vlan_forwarding"].Figures.of(vlan_summary(1.25, [0.2, 1.0, 0.38, 0.3, 0.12, 0.0, 0.0, 0.0], spin=0.5))
    assert (figures.busiest, figures.second, figures.cpu) == (1.0, 0.38, 0.25)
    assert figures.spinning == 0.125, "half of the busy time, of all CPUs' time"
    assert figures.cells() == ["1.25", "25.0", "100.0", "38.0", "12.5", "25.0", "1,200"]


def test_vlan_comparison_has_errors_at_both_loads(scripts, tmp_path):
    module = scripts["vlan_forwarding"]
    at_load = {module.OVERLOAD: vlan_summary(1.26, [1.0, *[0.3] * 7]), module.NO_LOSS: vlan_summary(1.26, [0.52, *[0.26] * 7])}
    found = {(at, load): module.Figures.of(summary) for at in module.CONFIGURATIONS for load, summary in at_load.items()}
    comparison = module.compared(found, tmp_path)
    rows = {row.what: row for row in comparison.rows}
    assert len(rows) == len(comparison.rows) == 4 * 2 * 4
    rate = rows[f"ingress/egress VLAN no/yes, {module.NO_LOSS}: rate"]
    assert rate.error == pytest.approx(1.26 / 1.4 - 1) and rate.role == "predicted"
    assert rows[f"ingress/egress VLAN no/no, {module.OVERLOAD}: CPU, mean of 8"].role == "calibrated"
    assert len(comparison.headlines) == 4, "rate and CPU use of the egress row at both loads"
    assert "1.40 | 1.26 | Mpacket/s | -10.0% |" in (tmp_path / "vlan_forwarding.md").read_text()
    assert (tmp_path / "vlan_forwarding.png").stat().st_size < 150_000


def test_vlan_runs_are_made_once_and_named_after_what_differs(scripts):
    module = scripts["vlan_forwarding"]
    table = module.table_cases()
    assert len(table) == 8 and len(set(table.values())) == 6, "without egress VLAN both loads are one search, which ends with its first trial"
    vlans, devices = ("egress_vlan", "ingress_vlan egress_vlan"), ("multiqueue", "lltx")
    assert set(module.answer_cases()) == {f"{vlan} {device}" for vlan in vlans for device in devices}
    light = module.assumption_cases(module.LOSS_FREE_PPS)
    assert len(set(light.values())) == len(light) == 11
    assert light["salt2"].point.load_pps == 1.25e6 and light["salt2"].point.warmup_ns == 15e6
    text = (ANALYSIS.parent / "workloads" / "vlan_fwd.trace").read_text(encoding="utf-8")
    known = set(re.findall(r"^variant (\w+)", text, re.M)) | set(" ".join(re.findall(r"^choice \w+ (.*)", text, re.M)).split())
    assert {variant for case in (*table.values(), *light.values()) for variant in case.variants} <= known


def test_vlan_run_that_fails_names_its_variants(scripts):
    module = scripts["vlan_forwarding"]
    with pytest.raises(module.CohsimError, match="egress_vlan nonesuch: .*unknown variant 'nonesuch'"):
        module.figures([module.Case(("egress_vlan", "nonesuch"), 1e6)])
