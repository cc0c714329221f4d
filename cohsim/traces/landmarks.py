"""Find objects in a trace by who touches them: functions known to access a field give away where its object starts.

``dst_release`` has one atomic, on ``dst_entry.__refcnt``; when other functions touch fields of ``struct rt6_info`` at just the
distances its layout says, the object is an rt6_info. One anchor and at least ``CONFIRMING_FUNCTIONS`` more functions are asked
for.
"""
from __future__ import annotations

from dataclasses import dataclass

from cohsim.traces.objects import NamedRange

CONFIRMING_FUNCTIONS = 2


@dataclass(frozen=True)
class Layout:
    """A struct as pahole prints it, and the accesses that give it away."""

    struct: str
    kernel: str                                   # prefix of the kernel release it holds for
    size_bytes: int
    fields: tuple[tuple[int, int, str], ...]      # offset, size, name
    anchor: tuple[str, int]                       # function, offset of its only atomic
    accesses: tuple[tuple[str, int], ...]         # function, offset of a field it loads


RT6_INFO = Layout(
    # Linux 6.1, 64-bit: include/net/dst.h, include/net/ip6_fib.h. Offsets of __refcnt, lwtstate, error, from and rt6i_dst agree
    # with the BTF names of the x86 captures of the same release.
    "rt6_info", "6.1.", 232,
    ((0, 8, "dst.dev"), (8, 8, "dst.ops"), (16, 8, "dst._metrics"), (24, 8, "dst.expires"), (32, 8, "dst.xfrm"),
     (40, 8, "dst.input"), (48, 8, "dst.output"), (56, 2, "dst.flags"), (58, 2, "dst.obsolete"),
     (60, 2, "dst.header_len"), (62, 2, "dst.trailer_len"),
     (64, 4, "dst.__refcnt"), (68, 4, "dst.__use"), (72, 8, "dst.lastuse"), (80, 8, "dst.lwtstate"), (88, 16, "dst.rcu_head"),
     (104, 2, "dst.error"), (108, 4, "dst.tclassid"), (112, 8, "from"), (120, 4, "sernum"), (124, 20, "rt6i_dst"),
     (144, 20, "rt6i_src"), (164, 16, "rt6i_gateway"), (184, 8, "rt6i_idev"), (192, 4, "rt6i_flags"), (200, 16, "rt6i_uncached"),
     (216, 8, "rt6i_uncached_list"), (224, 2, "rt6i_nfheader_len")),
    ("dst_release", 64),
    (("__rt6_find_exception_rcu", 124), ("rt6_check_expired", 112), ("fib6_rule_lookup", 104), ("ip6_forward", 80),
     ("ip6_finish_output2", 80)),
)
LAYOUTS = (RT6_INFO,)


def find_objects(kernel: str, atomics: dict[str, set[int]], loads: dict[str, set[int]]) -> list[NamedRange]:
    """Objects found in a trace of kernel release ``kernel``; the tables give the addresses each function has atomics on and
    loads from.

    Function names are without compiler suffixes (``.constprop.0``). Several objects of one struct are told apart as
    ``name@address``.
    """
    ranges: list[NamedRange] = []
    for layout in LAYOUTS:
        if not kernel.startswith(layout.kernel):
            continue
        function, offset = layout.anchor
        bases = [a - offset for a in sorted(atomics.get(function, ()))
                 if len({f for f, o in layout.accesses if a - offset + o in loads.get(f, ())}) >= CONFIRMING_FUNCTIONS]
        for base in bases:
            name = layout.struct if len(bases) == 1 else f"{layout.struct}@{base:x}"
            ranges.append(NamedRange(base, layout.size_bytes, name, ""))
            ranges += [NamedRange(base + at, size, name, field) for at, size, field in layout.fields]
    return ranges
