"""The .litmus text: what it means, and what is said about mistakes in it."""

from __future__ import annotations

import pytest

from cohsim.errors import WorkloadError
from cohsim.litmus import operational
from cohsim.litmus.parse import parse_litmus
from cohsim.litmus.rounds import placement
from cohsim.litmus.test import Atom, Kind, LitmusTest
from cohsim.uops import Alu, Cond, Fence


def x86(*rows: str, init: str = "", end: str = "~exists (x=99)", arch: str = "X86", threads: int = 1) -> LitmusTest:
    head = " | ".join(f"P{i}" for i in range(threads))
    return parse_litmus("\n".join([f"{arch} T", "{ " + init + " }", f"{head} ;", *(f"{row} ;" for row in rows), end]), "t.litmus")


def power(*rows: str, init: str = "0:r2=x; 0:r4=y;", end: str = "~exists (x=99)") -> LitmusTest:
    return x86(*rows, init=init, end=end, arch="PPC")


def problems(text: str) -> list[str]:
    with pytest.raises(WorkloadError) as caught:
        parse_litmus(text, "t.litmus")
    return [str(p) for p in caught.value.problems]


def final(test: LitmusTest) -> dict[str, int]:
    """The only outcome of a test of one thread."""
    (outcome,) = operational.outcomes(test, buffered=False)
    return {str(atom): value for atom, value in zip(test.atoms, outcome, strict=True)}


def test_a_whole_file() -> None:
    test = parse_litmus(
        'X86 SB+x\n"two stores"\nCycle=Fre PodWR Fre PodWR\n(* a comment\n over two lines *)\n{ x=1; int y=2; 0:EBX=7; }\n'
        " P0         | P1         ;\n MOV [x],$1 | mov [y],$2 ;\n MFENCE     |            ;\n mov eax,y  | ;\n"
        "locations [x; 1:EAX;]\n(* cohsim: allowed *)\nexists (0:EAX=0 /\\ (~y=3 \\/ x=1))\n".replace("1:EAX", "0:EBX").replace(
            "MFENCE    ", "add eax,ebx"
        ),
        "dir/t.litmus",
    )
    assert (test.name, test.arch, test.title, test.expectation) == ("SB+x", "X86", "two stores", "allowed")
    assert test.memory == {"x": 1, "y": 2} and test.registers == ({"EBX": 7}, {})
    assert [u.kind for u in test.threads[0]] == [Kind.STORE, Kind.ALU, Kind.LOAD]
    assert test.atoms == (Atom(-1, "x"), Atom(-1, "y"), Atom(0, "EAX"), Atom(0, "EBX"))
    assert test.singled_out((1, 3, 0, 0)) and test.singled_out((0, 0, 0, 0)) and not test.singled_out((0, 3, 0, 0))
    assert not test.singled_out((1, 0, 1, 0))


def test_forall_singles_out_what_it_excludes() -> None:
    test = x86("LOCK INC [x]", end="forall (x=1)")
    assert test.expectation == "forbidden" and test.singled_out((0,)) and not test.singled_out((1,))


def test_x86_operand_orders() -> None:
    intel = x86("MOV ECX,$5", "MOV [x],ECX", "MOV EAX,[x]", end="~exists (x=99 /\\ 0:EAX=99)")
    att = x86(
        "movl $5,%ecx", "movl %ecx,(x)", "movl (%rdi),%eax", init="0:rdi=x;", arch="X86_64", end="~exists (x=99 /\\ 0:eax=99)"
    )
    assert final(intel) == final(att) == {"x": 5, "0:EAX": 5}
    assert att.threads[0][2].location == "x"


def test_x86_arithmetic_and_locked_operations() -> None:
    rows = (
        "MOV EAX,$3",
        "LOCK XADD [x],EAX",
        "XADD [x],EAX",
        "MOV EBX,$9",
        "XCHG EBX,[y]",
        "MOV EDX,$1",
        "LOCK CMPXCHG [y],EDX",
        "LOCK SUB [x],$1",
        "DEC [x]",
        "XOR ECX,ECX",
        "ADD ECX,[x]",
        "AND ECX,$254",
    )
    test = x86(*rows, init="x=10; y=4;", end="~exists (x=99 /\\ y=99 /\\ 0:EAX=99 /\\ 0:EBX=99 /\\ 0:ECX=99)")
    # xadd: EAX=10, x=13; xadd: EAX=13, x=23; xchg: EBX=4, y=9; cmpxchg: y is not 13, EAX=9
    assert final(test) == {"x": 21, "y": 9, "0:EAX": 9, "0:EBX": 4, "0:ECX": 20}
    assert [u.alu for u in test.threads[0] if u.kind is Kind.RMW] == [Alu.ADD, Alu.XCHG, Alu.CAS, Alu.SUB]
    assert test.sizes == {"x": 4, "y": 4}


def test_power_fences_dependencies_and_branches() -> None:
    test = power(
        "lwz r1,0(r2)",
        "sync",
        "lwsync",
        "isync",
        "eieio",
        "xor r5,r1,r1",
        "lwzx r6,r5,r4",
        "stwx r6,r4,r5",
        "lwarx r7,0,r2",
        "stwcx. r7,r0,r2",
        "bne L",
        "cmpwi r1,3",
        "blt L",
        "b L",
        "li r9,1",
        "L:",
        end="~exists (0:r1=9)",
    )
    code = test.threads[0]
    assert [u.fence for u in code if u.kind is Kind.FENCE] == [Fence.FULL, Fence.LIGHT, Fence.INSTR, Fence.STORE]
    assert [(u.location, u.index) for u in code if u.reads or u.writes] == [
        ("x", None),
        ("y", "r5"),
        ("y", "r5"),
        ("x", None),
        ("x", None),
    ]
    branches = [u for u in code if u.kind is Kind.BRANCH]
    assert [(u.cond, u.target) for u in branches] == [(Cond.EQ, 15), (Cond.LT, 15), (Cond.ALWAYS, 15)]


def test_power_control_flow_is_executed() -> None:
    loop = power(
        "li r1,0",
        "A: addi r1,r1,1",
        "cmpwi r1,5",
        "blt A",
        "li r3,-2",
        "cmpwi r3,0",
        "bge B",
        "li r5,7",
        "B: stw r3,0(r2)",
        "lwz r6,0(r2)",
        end="~exists (x=99 /\\ 0:r1=99 /\\ 0:r5=99 /\\ 0:r6=99)",
    )
    assert final(loop) == {"x": -2, "0:r1": 5, "0:r5": 7, "0:r6": -2}


def test_layouts_keep_rounds_and_locations_apart() -> None:
    test = x86("MOV [x],$1", "MOV [y],$1", "MOV [z],$1")
    for layout in ("own", "warm", "one"):
        words = {base + stride * n for base, stride in placement(test, layout, 64).values() for n in range(1000)}
        assert len(words) == 3000 and all(word % 8 == 0 for word in words)
    lines = {name: base // 64 for name, (base, _) in placement(test, "one", 64).items()}
    assert len(set(lines.values())) == 1
    assert len({base // 64 for base, _ in placement(test, "own", 64).values()}) == 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("MVO [x],$1", "t.litmus:4:1: unknown x86 instruction 'mvo'"),
        ("MOV [x],[y]", "t.litmus:4:1: mov from memory to memory"),
        ("MOV [x]", "t.litmus:4:1: mov takes 2 operands, not 1"),
        ("  MOV [x],", "t.litmus:4:11: ends too early; expected"),
        ("MOV EAX,4(x)", "t.litmus:4:9: 4(x): only displacement 0"),
        ("LOCK ADD EAX,$1", "t.litmus:4:6: a lock prefix needs a destination in memory"),
        ("CMPXCHG [x],EBX", "t.litmus:4:1: cmpxchg without a lock prefix"),
        ("MOV EAX,[EBX]", "t.litmus:4:10: EBX holds no address"),
        ("MFENCE EAX", "t.litmus:4:1: mfence takes 0 operands"),
        ("MOV EAX;$1", "t.litmus:4:9: unexpected"),
    ],
)
def test_faulty_x86(row: str, message: str) -> None:
    found = problems(f"X86 T\n{{ x=0; }}\nP0 ;\n{row} ;\n~exists (x=1)\n")
    assert any(p.startswith(message) for p in found), found


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("lwz r1,4(r2)", "t.litmus:4:8: 4(r2): only displacement 0"),
        ("lwz r1,0(r3)", "t.litmus:4:8: r3 holds no address"),
        ("mr r1,r2", "t.litmus:4:7: r2 holds the address of x and is used as a value"),
        ("bne L", "t.litmus:4:1: no comparison or stwcx. before bne"),
        ("b L", "t.litmus:4:3: no label 'L' in this thread"),
        ("li r1,70000", "t.litmus:4:7: 70000 is not a 16-bit number"),
        ("lwz r99,0(r2)", "t.litmus:4:5: r99 is not a register"),
        ("LOCK stw r1,0(r2)", "t.litmus:4:6: Power has no lock prefix"),
    ],
)
def test_faulty_power(row: str, message: str) -> None:
    found = problems(f"PPC T\n{{ 0:r2=x; }}\nP0 ;\n{row} ;\n~exists (x=1)\n")
    assert any(p.startswith(message) for p in found), found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.litmus:1:1: does not begin with an architecture"),
        ("MIPS T\n{}\nP0 ;\n~exists (x=1)", "t.litmus:1:1: does not begin with an architecture"),
        ("X86 T\nP0 ;\n", "no init block"),
        ("X86 T\n{ x=0; x=1; }\nP0 ;\nMOV [x],$1 ;\n~exists (x=1)", "t.litmus:2:8: x is initialised twice"),
        ("X86 T\n{ x=y; }\nP0 ;\nMOV [x],$1 ;\n~exists (x=1)", "t.litmus:2:3: x would hold the address of y"),
        ("X86 T\n{ 3:EAX=y; }\nP0 ;\nMOV [x],$1 ;\n~exists (x=1)", "t.litmus:2:5: 3:EAX: there is no thread 3"),
        ("X86 T\n{}\nP0 | P2 ;\nMOV [x],$1 | ;\n~exists (x=1)", "t.litmus:3:1: the first row is 'P0 | P2'"),
        ("X86 T\n{}\nP0 | P1 ;\nMOV [x],$1 ;\n~exists (x=1)", "t.litmus:4:1: 1 cells in a row of a 2-thread test"),
        ("X86 T\n{}\nP0 ;\nMOV [x],$1 \n~exists (x=1)", "t.litmus:4:1: a row without ;"),
        ("X86 T\n{}\nP0 ;\nMOV [x],$1 ;\n", "no final condition"),
        ("X86 T\n{}\nP0 ;\nMOV [x],$1 ;\nexists (x=1)", "t.litmus:5:1: no expectation"),
        (
            "X86 T\n{}\nP0 ;\nMOV [x],$1 ;\n(* cohsim: allowed *)\n~exists (x=1)",
            "t.litmus:6:1: ~exists means forbidden, the comment says allowed",
        ),
        ("X86 T\n{}\nP0 ;\nMOV [x],$1 ;\n(* cohsim: likely *)\nexists (x=1)", "t.litmus:5:1: unknown expectation 'likely'"),
        ("X86 T\n{}\nP0 ;\nMOV [x],$1 ;\n(* open\nexists (x=1)", "t.litmus:5:1: a comment that does not end"),
        ("X86 T\n{}\nP0 ;\nMOV [flag],$1 ;\n~exists (flog=1)", "t.litmus:5:10: no location 'flog'; did you mean flag?"),
        ("X86 T\n{}\nP0 ;\nMOV [x],$1 ;\n~exists (0:EAX=1)", "t.litmus:5:12: thread 0 does not use a register 'EAX'"),
        ("X86 T\n{}\nP0 ;\nMOV [x],$1 ;\n~exists (x=1 /\\ )", "t.litmus:5:17: unexpected ')'"),
        ("X86_64 T\n{}\nP0 ;\nmovl $1,(x) ;\nmovq $1,(x) ;\n~exists (x=1)", "t.litmus:5:10: x is accessed with 4 and 8 bytes"),
    ],
)
def test_faulty_frame(text: str, message: str) -> None:
    found = problems(text)
    assert any(message in p for p in found), found


def test_all_faults_are_reported_at_once_in_order() -> None:
    found = problems("PPC T\n{ 0:r2=x; 0:q=1; }\nP0 ;\nlwz r1,0(r3) ;\nbne L ;\n~exists (x= /\\ y=1)")
    assert [p.split(": ")[0] for p in found] == ["t.litmus:2:13", "t.litmus:4:8", "t.litmus:5:1", "t.litmus:5:5", "t.litmus:6:13"]
