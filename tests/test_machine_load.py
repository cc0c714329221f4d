"""Machine files: what is accepted, and every way to get one wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machine_text import SMALL, line_of, write

from cohsim.datafiles import bundled_names, find_data
from cohsim.errors import MachineError, WorkloadError
from cohsim.machine import compile_machine, load_machine

BUNDLED = bundled_names("machines", ".yaml")


def problems(name: str, overrides: tuple[str, ...] = ()) -> list[str]:
    """The problems of a machine that must have some, one line each."""
    with pytest.raises(MachineError) as caught:
        load_machine(name, overrides)
    lines = [str(problem) for problem in caught.value.problems]
    assert lines and all(len(line.splitlines()) == 1 for line in lines)
    return lines


def changed(old: str, new: str) -> str:
    """SMALL with one piece of text replaced."""
    assert SMALL.count(old) == 1, old
    return SMALL.replace(old, new)


def test_bundled_machines_are_there() -> None:
    assert {"t4240", "corei7", "xeon_x5550"} <= set(BUNDLED)


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_machine_is_valid_and_named_as_its_file(name: str) -> None:
    spec = load_machine(name)
    assert spec.name == name
    assert compile_machine(spec).name == name


def test_values_know_where_they_come_from(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    spec = load_machine(path)
    value = spec.values["caches.cpc.hit"]
    assert (value.text, value.source, value.where) == ("90 cycles", "cal", f"{path}:{line_of(SMALL, 'hit: 90')}")
    assert spec.sources["cal"].kind == "calibrated" and str(spec.sources["cal"].range) == "50..110 cycles"
    assert spec.last_level == "caches.cpc"


ONE_FAULT = [
    # old text, new text, what the line must hold; its number is that of the new text unless the fault is an absence
    ("isa: power", "isa: powr", "isa: 'powr' is none of its words; did you mean 'power'?"),
    ("protocol: mesi", "protocol: dragon", "protocol: 'dragon' is none of its words; choose from msi, mesi, mesif, moesi"),
    ("schema: 1", "schema: 2", "schema: version '2' is not supported"),
    ("mshrs: 4 [a]", "msrhs: 4 [a]\n  mshrs: 4 [a]", "cores.msrhs: unknown key; did you mean 'mshrs'?"),
    ("mshrs: 4 [a]", "mshrs: 4 [a]\n  lookup: 4 cycles [a]", "cores.lookup: unknown key; did you mean 'home.lookup'?"),
    ("mshrs: 4 [a]", "mshrs: 4 [a]\n  fences.sync: 4 cycles [a]", "cores.fences.sync: unknown key; nest the keys"),
    ("mshrs: 4 [a]", "mshrs: 4", "cores.mshrs: has no source; add [source]"),
    ("mshrs: 4 [a]", "mshrs: 4 [aa]", "cores.mshrs: unknown source 'aa'; did you mean 'a'?"),
    ("mshrs: 4 [a]", "mshrs: 4 []", "cores.mshrs: unknown source ''"),
    ("mshrs: 4 [a]", "mshrs: 4 cycles [a]", "cores.mshrs: wrong unit 'cycles'; write it with no unit"),
    ("mshrs: 4 [a]", "mshrs: 0 [a]", "cores.mshrs: must be more than 0"),
    ("mshrs: 4 [a]", "mshrs: 100000 [a]", "cores.mshrs: 100000 is more than 1024"),
    ("mshrs: 4 [a]", "mshrs: {}", "cores.mshrs: needs one value, not keys"),
    ("mshrs: 4 [a]", "mshrs: [4]", "cores.mshrs: a list has no meaning here"),
    ("mshrs: 4 [a]", "mshrs:", "cores.mshrs: '' is not a number"),
    ("mshrs: 4 [a]", "mshrs: 4 [a]\n  width: 2 [a]", "cores.width: duplicate key, first at"),
    ("mshrs: 4 [a]", "mshrs: 4 [a]\n  locked: 20 cycles [a]", "cores.locked: has a meaning only where isa is x86; remove it"),
    (
        "store_gathering: yes",
        "store_gathering: maybe",
        "cores.store_gathering: 'maybe' is none of its words; choose from yes, no",
    ),
    ("store_gathering: yes", "store_gathering: yes [b]", "cores.store_gathering: unknown source 'b'"),
    (
        "instructions_per_cycle: 0.8 [a]",
        "instructions_per_cycle: 3 [a]",
        "cores.instructions_per_cycle: 3 is more than the width of 2",
    ),
    ("instructions_per_cycle: 0.8 [a]", "instructions_per_cycle: 0.001 [a]", "0.001 is less than 0.01"),
    ("window_smt: 12 [a]", "window_smt: 20 [a]", "cores.window_smt: 20 is more than window 16"),
    ("fabric: 1 GHz [a]", "fabric: 1 [a]", "clocks.fabric: 1 has no unit; write it in MHz or GHz"),
    ("fabric: 1 GHz [a]", "fabric: 1000 GHz [a]", "clocks.fabric: 1000 GHz is more than 100000000000 Hz"),
    ("sockets: 1 [a]", "sockets: 2 [a]", "topology.sockets: 2 is more than 1"),
    (
        "threads_per_core: 2 [a]",
        "threads_per_core: 1 [a]",
        "cores.window_smt: has a meaning only where topology.threads_per_core is 2",
    ),
    ("line: 64 B [a]", "line: 65 B [a]", "caches.line: 65 B is not a power of two"),
    ("size: 32 KiB [a]", "size: 24 KiB [a]", "caches.l1d.size: 24 KiB / (8 ways x 64 B) = 48 sets, not a power of two"),
    ("size: 32 KiB [a]", "size: 32000 B [a]", "caches.l1d.size: 32000 B is not a multiple of 8 ways x 64 B"),
    ("slices: 3 [a]", "slices: 1 [a]", "caches.cpc.size: 1536 KiB / (16 ways x 64 B) = 1536 sets, not a power of two"),
    ("size: 1 MiB [a]", "size: 32 KiB [a]", "caches.l2.size: 32768 B is less than the 2 L1 of 32768 B above it"),
    ("banks: 4 [a]", "banks: 3 [a]", "caches.l2.banks: 3 is not a power of two"),
    ("side: memory", "side: inclusive", "caches.cpc.size: 1572864 B cannot include 2 L2 of 1048576 B"),
    ("write: through", "write: back", "caches.l1d.write: write-back L1 under an L2 of scope cluster is not modelled"),
    ("snoops: broadcast", "snoops: directory", "home.snoops: a directory keeps its core-valid bits in an inclusive cache"),
    ("hit: 12 cycles [a]", "hit: 6 cycles [a]", "caches.l2.hit: 6 cycles leaves no time for the L2 between two hops of 3 cycles"),
    (
        "hit: 90 cycles [cal]",
        "hit: 40 cycles [cal]",
        "caches.cpc.hit: 40 cycles is outside the range 50..110 cycles of its source [cal]",
    ),
    ("hit: 90 cycles [cal]", "hit: 60 ns [cal]", "caches.cpc.hit: 60 ns is outside the range 50..110 cycles"),
    (
        "hit: 90 cycles [cal]",
        "hit: 79 cycles [cal]",
        "caches.cpc.hit: 79 cycles is less than its parts: L2 hit 12.0 + 2 x hop 20.0",
    ),
    ("remote_dirty: 95 cycles [cal]", "remote_dirty: 79 cycles [cal]", "snoop.remote_dirty: 79 cycles is less than its parts"),
    ("latency: 100 ns [a]", "latency: 20 ns [a]", "memory.latency: 20 ns is less than its parts"),
    ("latency: 100 ns [a]", "latency: 2000000 ns [a]", "memory.latency: 2000000 ns is more than 1000000 ns"),
    ("channels: 2 [a]", "channels: 2 [cal]", "memory.channels: 2 has a source [cal] whose range is 50..110 cycles"),
    ("title: two", "title: ''\nx: two", "title: is empty"),
    ("core: 2 GHz [a]", "core: 2 GHz [a]\n  lowest: 1 GHz [a]", "clocks.lowest: has no meaning without clocks.step; add step: N MHz"),
    ("core: 2 GHz [a]", "core: 2 GHz [a]\n  step: 0.1 GHz [a]", "clocks.step: has no meaning without clocks.lowest"),
    (
        "core: 2 GHz [a]",
        "core: 2 GHz [a]\n  step: 100 MHz [a]\n  lowest: 2.1 GHz [a]",
        "clocks.lowest: 2.1 GHz is more than clocks.core, 2 GHz; core is the highest clock",
    ),
    ("core: 2 GHz [a]", "core: 2 GHz [a]\n  lowest: 1 GHz [a]\n  step: 0 MHz [a]", "clocks.step: must be more than 0"),
    (
        "core: 2 GHz [a]",
        "core: 2 GHz [a]\n  lowest: 1 GHz [a]\n  step: 2 MHz [a]",
        "clocks.step: 2 MHz from 1 GHz to 2 GHz are more than 256 P-states",
    ),
    ("core: 2 GHz [a]", "core: 2 GHz [a]\n  lowest: 1 GHz [a]\n  step: 100 MHz", "clocks.step: has no source"),
]


@pytest.mark.parametrize(("old", "new", "line"), ONE_FAULT, ids=[line[:60] for _, _, line in ONE_FAULT])
def test_fault_is_named_with_its_line(tmp_path: Path, old: str, new: str, line: str) -> None:
    text = changed(old, new)
    path = write(tmp_path, text)
    matching = [problem for problem in problems(path) if line in problem]
    assert len(matching) == 1
    key = line.split(":")[0].rpartition(".")[2]
    number = int(matching[0].removeprefix(f"{path}:").split(":")[0])
    assert key in text.splitlines()[number - 1] or line[0].isdigit()


@pytest.mark.parametrize(
    ("old", "line"),
    [
        ("  mshrs: 4 [a]\n", "cores.mshrs: missing; add mshrs: N [source]"),
        ("  port: 1 fabric cycle [a]\n", "snoop.port: missing; add port: N cycles [source]"),
        ("  snoops: broadcast\n", "home.snoops: missing; add snoops: broadcast or directory"),
        ("    banks: 4 [a]\n", "caches.l2.banks: missing (caches.l2.scope is cluster)"),
        ("  window_smt: 12 [a]\n", "cores.window_smt: missing (topology.threads_per_core is 2)"),
        ("    isync: 10 cycles [a]\n", "cores.fences.isync: missing (isa is power)"),
        ("name: small\n", "name: missing"),
        ("schema: 1\n", "schema: missing; add schema: 1"),
        (
            "network:\n  hop: 5 fabric cycles [a]\n  line_transfer: 2 fabric cycles [a]\n",
            "network: missing section; its keys are hop, line_transfer",
        ),
    ],
)
def test_missing_key(tmp_path: Path, old: str, line: str) -> None:
    found = problems(write(tmp_path, changed(old, "")))
    assert len(found) == 1 and line in found[0]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("b: {kind: assumed, why: x}", "sources.b: is used by no value; remove it"),
        ("b: {kind: guessed, why: x}", "sources.b: unknown kind 'guessed'; kinds are documented, measured, calibrated, assumed"),
        ("b: {why: x}", "sources.b: missing key 'kind'"),
        ("b: {kind: assumed}", "sources.b: assumed sources need 'why'"),
        ("b: {kind: documented}", "sources.b: documented sources need 'ref'"),
        ("b: {kind: measured, ref: }", "sources.b.ref: needs text"),
        ("b: {kind: calibrated, range: 1..2}", "sources.b: calibrated sources need 'against'"),
        ("b: {kind: calibrated, against: x}", "sources.b: calibrated sources need 'range'"),
        ("b: {kind: calibrated, against: x, range: 1..2 parsec}", "sources.b.range: unknown unit"),
        ("b: {kind: assumed, why: x, rnage: 1..2}", "sources.b.rnage: unknown key; did you mean 'range'?"),
        ("b: assumed", "sources.b: needs keys"),
        ("b c: {kind: assumed, why: x}", "sources: a key must be one word"),
    ],
)
def test_wrong_source(tmp_path: Path, source: str, line: str) -> None:
    text = f"{SMALL}  {source}\n"
    path = write(tmp_path, text)
    matching = [problem for problem in problems(path) if line in problem]
    assert len(matching) == 1 and matching[0].startswith(f"{path}:{len(text.splitlines())}: ")


def test_all_problems_at_once_in_line_order(tmp_path: Path) -> None:
    text = SMALL
    for old, new, _ in (ONE_FAULT[0], ONE_FAULT[8], ONE_FAULT[23], ONE_FAULT[29]):
        text = text.replace(old, new)
    path = write(tmp_path, text)
    lines = [int(problem.removeprefix(f"{path}:").split(":")[0]) for problem in problems(path)]
    assert len(lines) == 4 and lines == sorted(lines)


def test_two_caches_at_the_home(tmp_path: Path) -> None:
    second = SMALL[SMALL.index("  cpc:") : SMALL.index("network:")].replace("cpc:", "l3:")
    assert any(
        "caches.cpc: caches.l3 is there too" in p for p in problems(write(tmp_path, changed("network:\n", second + "network:\n")))
    )


def test_machine_without_cache_at_the_home(tmp_path: Path) -> None:
    start = SMALL.index("  cpc:")
    machine = compile_machine(load_machine(write(tmp_path, SMALL[:start] + SMALL[SMALL.index("network:") :])))
    assert (machine.l3_sets, machine.l3_ways, machine.l3_data_fs, machine.l3_inclusive) == (0, 0, 0, False)


# ---- files that are no machine files


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "is empty"),
        (b"# only a comment\n", "is empty"),
        (b"- 1\n", "is not a machine file: no keys"),
        (b"a: [b\n", "not valid YAML"),
        (b"l2: {hit: 3 cycles [gcc]}\n", "in flow style { } quote values"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"a: \0\n", "is a binary file"),
        (b"a: \x07\n", "not valid YAML"),
        (b"x: &a {y: *a}\n", "aliases (*name) are not supported"),
        (b"{" * 5000, "nested deeper than 8 levels"),
        (b"a: " + b"[" * 5000, "nested deeper than 8 levels"),
        (b"#" * (1 << 20) + b"\n", "is larger than 1024 KiB"),
        (b"a: 1\n---\nb: 2\n", "not valid YAML"),
        (b"!!python/object:os.system x\n", "is not a machine file: no keys"),
        (b"? [a, b]\n: 1\n", "a key must be one word"),
        (b'"a\\nb": 1\n', "a key must be one word"),
    ],
)
def test_not_a_machine_file(tmp_path: Path, content: bytes, line: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    found = [problem for problem in problems(str(path)) if line in problem]
    assert len(found) == 1 and found[0].startswith(str(path))


def test_missing_file_names_the_nearest() -> None:
    assert problems("t424") == ["t424: no such machine file; did you mean 't4240'?"]
    assert "one of: corei7, t4240" in problems("zzz")[0]


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000, "../setup.py", "/nonexistent/t4240.yaml"])
def test_odd_names(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(problems(name)) == 1


def test_directory_and_special_file(tmp_path: Path) -> None:
    assert "is a directory" in problems(str(tmp_path))[0]
    assert "is not a regular file" in problems(os.devnull)[0]


def test_data_is_found_as_given_then_bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_data("machines", "t4240", ".yaml") == find_data("machines", "t4240.yaml", ".yaml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corei7.yaml").write_text("mine", encoding="utf-8")
    assert find_data("machines", "corei7.yaml", ".yaml") == Path("corei7.yaml")
    (tmp_path / "t4240").mkdir()  # a folder of that name in the current one does not hide the machine
    assert find_data("machines", "t4240", ".yaml").name == "t4240.yaml"
    with pytest.raises(WorkloadError):
        find_data("workloads", "no_such_workload", ".trace")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 6), st.text(max_size=3)), min_size=1, max_size=3))
def test_any_edit_gives_a_machine_or_problems_of_one_line(tmp_path: Path, edits: list[tuple[int, int, str]]) -> None:
    text = SMALL
    for position, length, new in edits:
        text = text[:position] + new + text[position + length :]
    path = tmp_path / "edited.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        compile_machine(load_machine(str(path)))
    except MachineError as error:
        assert error.problems
        assert all(len(str(problem).splitlines()) == 1 and problem.where.startswith(str(path)) for problem in error.problems)


# ---- extends


def test_extends_merges_key_by_key(tmp_path: Path) -> None:
    write(tmp_path, SMALL, "base.yaml")
    child = "schema: 1\nextends: base.yaml\nname: child\ncaches:\n  l2:\n    hit: 14 cycles [b]\n"
    child += "sources: {b: {kind: measured, ref: r}}\n"
    path = write(tmp_path, child)
    spec, base = load_machine(path), load_machine(str(tmp_path / "base.yaml"))
    differing = {key for key in spec.values if spec.values[key].text != base.values[key].text}
    assert differing == {"name", "caches.l2.hit"}
    assert spec.values["caches.l2.hit"].where == f"{path}:6"
    assert [file.name for file in spec.files] == ["machine.yaml", "base.yaml"]


def test_base_source_that_the_child_no_longer_uses_is_no_fault(tmp_path: Path) -> None:
    write(tmp_path, SMALL, "base.yaml")
    values = 'caches: {cpc: {hit: "90 cycles [a]"}}\nsnoop: {remote_clean: "80 cycles [a]", remote_dirty: "95 cycles [a]"}\n'
    spec = load_machine(write(tmp_path, f"schema: 1\nextends: base.yaml\nname: child\n{values}"))
    assert set(spec.sources) == {"a"}


def test_fault_in_base_is_named_there(tmp_path: Path) -> None:
    base = write(tmp_path, changed("mshrs: 4 [a]", "mshrs: four [a]"), "base.yaml")
    found = problems(write(tmp_path, "schema: 1\nextends: base.yaml\nname: child\n"))
    assert len(found) == 1 and found[0].startswith(f"{base}:{line_of(SMALL, 'mshrs: 4')}: cores.mshrs")


def test_extends_a_bundled_machine(tmp_path: Path) -> None:
    assert load_machine(write(tmp_path, "schema: 1\nextends: t4240.yaml\nname: mine\n")).isa == "power"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("schema: 1\nextends: machine.yaml\n", "extends itself"),
        ("schema: 1\nextends: nothing.yaml\n", "no such file 'nothing.yaml'"),
        ("schema: 1\nextends:\n", "must be the name of one file"),
        ("schema: 1\nextends: {a: b}\n", "must be the name of one file"),
    ],
)
def test_wrong_extends(tmp_path: Path, text: str, line: str) -> None:
    found = [problem for problem in problems(write(tmp_path, text)) if line in problem]
    assert len(found) == 1 and ":2: extends:" in found[0]


def test_circle_of_two(tmp_path: Path) -> None:
    write(tmp_path, "schema: 1\nextends: machine.yaml\n", "other.yaml")
    assert "extends itself" in problems(write(tmp_path, "schema: 1\nextends: other.yaml\n"))[0]


# ---- --set


def test_override_is_an_assumed_value_of_the_command_line(tmp_path: Path) -> None:
    overrides = ["caches.l2.hit=14cycles", "protocol=mesif", "memory.latency=120 ns [a]", "clocks.core = 1.9 GHz"]
    spec = load_machine(write(tmp_path, SMALL), overrides)
    value = spec.values["caches.l2.hit"]
    assert value.text == "14 cycles" and value.source is not None
    assert (spec.sources[value.source].kind, spec.sources[value.source].why) == ("assumed", "--set on the command line")
    assert spec.word("protocol") == "mesif" and spec.values["clocks.core"].text == "1.9 GHz"


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("caches.l2.hit=14", "--set caches.l2.hit=14: caches.l2.hit: 14 has no unit"),
        ("caches.l2.hti=14cycles", "caches.l2.hti: unknown key; did you mean 'hit'?"),
        ("cachs.l2.hit=14cycles", "cachs: unknown key; did you mean 'caches'?"),
        ("caches.l2=14", "caches.l2: holds keys, not a value"),
        ("caches.l2.hit.x=14", "caches.l2.hit holds a value, not keys"),
        ("caches.l2.hit", "is not KEY=VALUE"),
        ("=3", "is not KEY=VALUE"),
        ("caches.l2.hit=", "is not KEY=VALUE"),
        ("schema=1", "schema: cannot be set on the command line"),
        ("extends=x.yaml", "extends: cannot be set"),
        ("caches.cpc.hit=60cycles", "caches.cpc.hit: 60 cycles is less than its parts"),
        ("caches.cpc.hit=120 cycles [cal]", "outside the range 50..110 cycles of its source [cal]"),
        ("caches.l2.hit=14 cycles [nobody]", "unknown source 'nobody'"),
        ("caches.l2.hit=14\ncycles\x1b", "--set caches.l2.hit=14?cycles?"),
    ],
)
def test_wrong_override(tmp_path: Path, override: str, line: str) -> None:
    path = write(tmp_path, SMALL)
    matching = [problem for problem in problems(path, (override,)) if line in problem]
    assert len(matching) == 1 and matching[0].startswith("--set ")


def test_override_twice(tmp_path: Path) -> None:
    assert "set twice" in problems(write(tmp_path, SMALL), ("caches.l2.hit=14cycles", "caches.l2.hit=15cycles"))[0]


def test_override_does_not_hide_faults_of_the_file(tmp_path: Path) -> None:
    found = problems(write(tmp_path, changed("mshrs: 4 [a]", "mshrs: 4")), ("caches.l2.hit=14",))
    assert len(found) == 2 and "cores.mshrs" in found[0] and "--set" in found[1]


# ---- the effective machine as a file


@pytest.mark.parametrize(("name", "overrides"), [*((name, ()) for name in BUNDLED), ("corei7", ("caches.l2.hit=11cycles",))])
def test_dump_gives_the_same_machine(tmp_path: Path, name: str, overrides: tuple[str, ...]) -> None:
    spec = load_machine(name, overrides)
    again = load_machine(write(tmp_path, spec.dump()))
    assert compile_machine(again) == compile_machine(spec)
    assert {p: (v.text, v.source) for p, v in again.values.items()} == {p: (v.text, v.source) for p, v in spec.values.items()}
    assert {k: (s.kind, s.text) for k, s in again.sources.items()} == {k: (s.kind, s.text) for k, s in spec.sources.items()}
    assert again.dump() == spec.dump()
