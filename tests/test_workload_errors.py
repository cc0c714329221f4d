"""Every wrong workload file is told in lines `file:line:column: what; what to do`, all at once, and never by a traceback."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from cohsim.errors import WorkloadError
from cohsim.workload import load_workload
from cohsim.workload.check import check_file
from cohsim.workload.load import compile_text

GOOD = """cohsim-trace 1
struct line size 64
    a 0 4
    b 4 4
object x line shared
object mine line per-cpu
function f(p)
    load p
path p
    call f(x.a)
run
    loop p
"""


def problems(text: str, **options: object) -> list[str]:
    arguments: dict = {"isa": "x86", "cpus": 2, **options}
    with pytest.raises(WorkloadError) as caught:
        compile_text(text, "t.trace", **arguments)
    return [str(p) for p in caught.value.problems]


def edited(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_the_sound_file_is_sound() -> None:
    assert len(compile_text(GOOD, "t.trace", isa="x86", cpus=2).workload.uops) == 6


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("struct line", "strct line", "2:1", "did you mean 'struct'"),
        ("    b 4 4", "    b 4", "4:8", "too early; expected a name, an integer|too early"),
        ("    b 4 4", "    b 64 4", "4:5", r"field 'b' \(64..67\) is outside struct line of 64 bytes"),
        ("    b 4 4", "    b 2 4", "2:8", r"line.b at 2 overlaps a \(0..3\)"),
        ("    b 4 4", "    a 4 4", "4:5", "field 'a' stands twice"),
        ("size 64", "size big", "2:8", "unknown param 'big'"),
        ("object x line", "object x lin", "5:8", "unknown struct 'lin'; did you mean 'line'"),
        ("shared", "everywhere", "5:15", "expected shared, per-cpu"),
        ("object mine line per-cpu", "object x line per-cpu", "6:8", "object 'x' is defined twice .first on line 5"),
        ("object mine line per-cpu", "object mine line per-cpu pool 3", "6:8", "is per-cpu and has a pool"),
        ("object mine line per-cpu", "object mine line per-cpu align 24", "6:8", "not a power of two"),
        ("object mine line per-cpu", "object mine line per-cpu at x+64", "6:8", "is per-cpu, 'x' is shared"),
        ("object mine line per-cpu", "object mine line shared at y", "6:8", "placed at unknown object 'y'"),
        ("object mine line per-cpu", "object mine line shared at x+60", "6:8", "'x' and 'mine' overlap"),
        ("object mine line per-cpu", "object mine line shared at mine", "6:8", "overlap|itself"),
        ("object mine line per-cpu", "object mine line per-cpu init z=3", "6:8", "has no field 'z'"),
        ("object mine line per-cpu", "object mine line per-cpu offset 4 offset 8", "6:8", "option 'offset' is given twice"),
        ("object mine line per-cpu", "object mine line per-cpu stride 32", "6:8", "stride 32 of object 'mine' is below its size"),
        ("    load p", "    load q", "8:10", "unknown object, register or param 'q'"),
        ("    load p", "    load x.c", "8:10", "struct line has no field 'c'"),
        ("    load p", "    load x+62:4", "8:10", r"bytes 62..65 are outside object 'x' of 64"),
        ("    load p", "    load x", "8:10", "the size of the access is not known"),
        ("    load p", "    r = load x+0:3", "8:14", "3 bytes are not 1, 2, 4 or 8"),
        ("    load p", "    load p.a", "8:10", "a field cannot be taken"),
        ("    load p", "    work ten", "8:5", "unknown param 'ten'"),
        ("    load p", "    work 1 loads 2 in x", "8:5", "work 1 has 2 loads and stores"),
        ("    load p", "    r = p + 1", "8:9", "'p' is an address where a value is expected"),
        ("    load p", "    p = 1", "8:5", "cannot be assigned"),
        ("    load p", "    goto away", "8:10", "unknown label 'away'"),
        ("    load p", "    lod p", "8:5", "unknown statement or function 'lod'"),
        ("    load p", "    atomic_icn p", "8:5", "did you mean 'atomic_inc'"),
        ("    load p", "    r = atomic_inc p", "8:9", "atomic_inc has no result; use atomic_inc_return"),
        ("    load p", "    cmpxchg p, 1", "8:5", "takes an address and 2 value"),
        ("    load p", "    set_bit p, 32", "8:5", "bit number outside 0..31"),
        ("    load p", "    rmw mul p, 1", "8:9", "unknown rmw function 'mul'"),
        ("    load p", "    fence heavy", "8:11", "unknown fence 'heavy'"),
        ("    load p", "    if p", "8:8", "a condition compares two values"),
        ("    load p", "    else", "8:5", "'else' without an 'if'"),
        ("    load p", "    load p\n        load p", "9:9", "indented deeper than its block"),
        ("    load p", "    load p\n  load p", "9:3", "indented by 2, its block by 4"),
        ("    load p", "\tload p", "8:1", "a tab; indent with spaces"),
        ("    load p", "    repeat 3", "8:5", "a block without lines"),
        ("    load p", "    repeat 0\n        load p", "8:5", "0 times; a count is 1..100000"),
        ("    load p", "    when nowhere\n        load p", "8:5", "unknown variant 'nowhere'"),
        ("    load p", "    when isa arm\n        load p", "8:14", "unknown instruction set 'arm'"),
        ("    load p", "    label a\n    label a", "9:11", "label 'a' is defined twice"),
        ("    load p", "    call f(p)", "8:10", "functions call each other without end: f -> f"),
        ("    load p", "    call g\nfunction g\n    call f(x.a)", "10:10", "f -> g -> f"),
        ("    load p", "    r = call f(p)", "8:14", "without end"),
        ("    call f(x.a)", "    r = call f(x.a)", "10:14", "f returns no value"),
        ("    call f(x.a)", "    call f", "10:10", r"f takes 1 argument\(s\), not 0"),
        ("    call f(x.a)", "    call ff(x.a)", "10:10", "unknown function 'ff'; did you mean 'f'"),
        ("    loop p", "    loop q", "12:10", "unknown path 'q'"),
        ("    loop p", "    on packet p", "12:15", "'on packet' without a source"),
        ("    loop p", "    source 10Gbit/s frame 78B\n    loop p", "13:10", "'loop' beside a source"),
        ("    loop p", "    source 10Gbit/s\n    on packet p", "12:12", "has no frame size"),
        ("    loop p", "    source 10Gbit frame 78B\n    on packet p", "12:12", "rate '10Gbit' has no known unit; use bit/s"),
        ("    loop p", "    source 10Gbit/s frame 78KB\n    on packet p", "12:12", "frame '78KB' has no known unit"),
        ("    loop p", "    source 1Mpps frame 78B arrivals bursty\n    on packet p", "12:12", "unknown arrivals 'bursty'"),
        ("    loop p", "    source 1Mpps frame 78B spread weights 1 2 3\n    on packet p", "12:12", "3 weights for 2 CPUs"),
        ("    loop p", "    source 1Mpps frame 78B ring 0\n    on packet p", "12:12", "ring 0"),
        ("    loop p", "    loop p\n    warmup 50 measure 1ms", "13:12", "expected a number with its unit"),
        ("    loop p", "    loop p\n    measure 5min", "13:13", "has no known unit; use ns, us, ms, s"),
        ("    loop p", "    cpu 0 runs p", "11:1", "nothing is said about CPU 1"),
        ("    loop p", "    cpu 0.. runs p\n    cpu 1 runs p", "13:16", "CPU 1 is given two programs"),
        ("    loop p", "    loop p\n    loop p", "13:10", "said twice"),
        ("run\n    loop p\n", "", "1:1", "no 'run' block"),
        ("function f(p)", "kernel 3.x\nfunction f(p)", "7:", "unexpected '.x'|unexpected"),
        ("function f(p)", "layout line.z@8\nfunction f(p)", "7:8", "struct line has no field 'z'"),
        ("function f(p)", "layout line.b@0\nfunction f(p)", "7:8", "overlaps"),
        ("function f(p)", "layout lines:pad\nfunction f(p)", "7:8", "unknown object 'lines'"),
        ("function f(p)", "layout nonsense\nfunction f(p)", "7:8", "is not understood"),
        ("function f(p)", "variant v\nfunction f(p)", "7:9", "variant 'v' changes nothing"),
        ("function f(p)", "variant v\n    param a 1\nvariant v\n    param a 2\nfunction f(p)", "9:9", "declared twice"),
        ("function f(p)", "choice c u v w\nfunction f(p)", "7:8", "variants u, v, w of choice 'c' change nothing"),
        ("function f(p)", "replace function f(p)", "7:18", "'replace' finds no function|outside a variant"),
        ("function f(p)", "param n n\nobject y bytes n shared\nfunction f(p)", "7:7", "defined by itself"),
    ],
)  # fmt: skip
def test_one_line_names_the_place(old: str, new: str, where: str, what: str) -> None:
    found = problems(edited(old, new))
    matching = [line for line in found if re.search(what, line)]
    assert matching, found
    assert matching[0].startswith(f"t.trace:{where}"), matching
    assert "\n" not in "".join(found)


def test_impossible_guards() -> None:
    text = GOOD.replace(
        "    load p", "    when v\n        unless v\n            load p\n    unless v\n        when v\n            load p"
    )
    found = problems(text.replace("function", "variant v\n    param n 1\nfunction"))
    assert [line.split(": ")[1].split(";")[0] for line in found] == [
        "'unless v' can never hold here",
        "'when v' can never hold here",
    ]
    found = problems(
        GOOD.replace("    load p", "    when a\n        when b\n            load p").replace("function", "choice c a b\nfunction")
    )
    assert "'when b' can never hold here" in found[0]


def test_a_program_that_explodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cohsim.workload.statements.MAX_UOPS", 2000)
    found = problems(edited("    call f(x.a)", "    unroll 100\n        unroll 100\n            load x.a"))
    assert found == ["t.trace:12:13: the program has more than 2000 micro-operations; use 'repeat' instead of 'unroll' or 'x K'"]


def test_all_problems_together() -> None:
    text = GOOD.replace("    load p", "    load q\n    stre p\n    goto nowhere").replace("a 0 4", "a 99 4")
    found = problems(text)
    assert len(found) == 4
    syntax = problems("cohsim-trace 1\nstrct a\nfunction\n    load\nfunction g\n    load x x\n    if\nrun\n    sorce 3\n")
    assert [int(line.split(":")[1]) for line in syntax] == [2, 3, 4, 6, 7, 9]


def test_a_thousand_errors_are_cut_short() -> None:
    found = problems("cohsim-trace 1\n" + "nonsense\n" * 1000)
    assert len(found) == 51
    assert "950 more problems" in found[-1]


def test_arguments() -> None:
    assert "unknown instruction set 'vax'" in problems(GOOD, isa="vax")[0]
    assert "0 CPUs" in problems(GOOD, cpus=0)[0]
    assert "'new' is not a version" in problems(GOOD, kernel="new")[0]
    assert problems(GOOD, variants=("fast",)) == ["--variant: unknown variant 'fast'; this workload has no variants"]
    assert "--layout" in problems(GOOD, layouts=("line.a@400x",))[0]
    assert "unknown struct 'lime'; did you mean 'line'" in problems(GOOD, layouts=("lime.a@8",))[0]
    choice = GOOD.replace("function", "choice c a b\nvariant b\n    kernel 4.4\nfunction")
    assert "a and b exclude each other (choice c)" in problems(choice, variants=("a", "b"))[0]
    assert "did you mean 'bee'" in problems(choice.replace(" b\n", " bee\n"), variants=("be",))[0]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "the file is empty"),
        (b"cohsim-trace 2\n", "the first line is 'cohsim-trace 2'"),
        (b"cohsim-trace 1", "nothing after the first line"),
        (b"cohsim-trace 1\n# only\n", "nothing after the first line"),
        (b"\x7fELF\x02\x01\x01\x00\xff\xfe", "not a text file"),
        (b"cohsim-trace 1\nstruct \x00 size 8\n", "NUL bytes"),
        (b"cohsim-trace 1\nstruct a siz", "unexpected"),
        (b"cohsim-trace 1\n" + b"#" * (9 << 20), "too large"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "w.trace"
    path.write_bytes(content)
    with pytest.raises(WorkloadError) as caught:
        load_workload(str(path), isa="x86", cpus=1)
    assert len(caught.value.problems) == 1
    assert what in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_missing_file_and_directory(tmp_path: Path) -> None:
    for name in (str(tmp_path / "none.trace"), str(tmp_path), "micro/atomic_ink"):
        with pytest.raises(WorkloadError) as caught:
            load_workload(name, isa="x86", cpus=1)
        assert len(caught.value.problems) == 1


def test_comments_and_line_ends() -> None:
    text = GOOD.replace("\n", "   # note\n", 3).replace("struct", 'title "a # in text"\nstruct', 1).replace("\n", "\r\n")
    from cohsim.workload.parse import parse_text

    assert parse_text(text.replace("\r\n", "\n"), "t.trace")[0].text == "a # in text"  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(4))
def test_mutilated_files_never_crash(seed: int) -> None:
    """Whatever is done to a file, it compiles or says why."""
    rng = random.Random(seed)
    source = Path(__file__).resolve().parent.parent / "workloads" / "micro" / "spinlock.trace"
    lines = source.read_text().splitlines()
    words = sorted({w for line in lines for w in line.split()}) + [
        "-1",
        "0",
        "999999999999",
        "(",
        "]",
        "->",
        "in",
        "x",
        "=",
        '"',
        "'",
    ]
    for _ in range(60):
        copy = list(lines)
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(1, len(copy))
            parts = copy[i].split(" ")
            action = rng.choice(["drop", "swap", "insert", "word", "indent"])
            if action == "drop":
                copy[i] = ""
            elif action == "swap":
                j = rng.randrange(1, len(copy))
                copy[i], copy[j] = copy[j], copy[i]
            elif action == "indent":
                copy[i] = " " * rng.randrange(8) + copy[i].strip()
            else:
                at = rng.randrange(len(parts))
                parts[at : at + (action == "word")] = [rng.choice(words)]
                copy[i] = " ".join(parts)
        try:
            compile_text("\n".join(copy), "t.trace", isa=rng.choice(["x86", "power"]), cpus=rng.choice([1, 2, 5]))
        except WorkloadError as error:
            assert all(p.what for p in error.problems)


def test_check_covers_variants_and_unused_functions(tmp_path: Path) -> None:
    path = tmp_path / "w.trace"
    path.write_text(GOOD)
    assert check_file(path) == "2 functions, 0 variants, x86 and power"
    path.write_text(
        GOOD.replace("    load p", "    load p\n    when v\n        load x.zz\n    when isa power\n        load x.yy\nvariant v")
    )
    with pytest.raises(WorkloadError) as caught:
        check_file(path)
    assert {re.search(r"field '(\w+)'", str(p)).group(1) for p in caught.value.problems} == {"zz", "yy"}  # type: ignore[union-attr]
    path.write_text(GOOD + "function lost\n    work 1\n")
    with pytest.raises(WorkloadError, match="function 'lost' is never used"):
        check_file(path)
