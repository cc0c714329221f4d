"""workloads/lib/slub.trace: freelists, page counts and partial lists after known sequences, and under contention."""

from __future__ import annotations

import pytest
from kernel_memory import Memory, check_slabs, simulated

HEAD = """cohsim-trace 1
kernel 2.6.31
include "slub.trace"
object s    kmem_cache      shared init size=1024 objsize=1000 order=1 objects=8 min_partial=2 chunk_shift=20
object c    kmem_cache_cpu  per-cpu
object n    kmem_cache_node shared init partial.next=addr n.partial.next partial.prev=addr n.partial.next
object mem  bytes 16MiB     shared align 8192
object map  bytes 1MiB      shared
object pool page_pool       per-cpu
object kept bytes 4KiB      per-cpu
object flag bytes 64        shared
function alloc_many(count)
    i = 0
    while i < count
        x = call kmem_cache_alloc(s, c, n, mem, map, pool)
        store kept+i:8 = x
        i = i + 8
function free_many(first, end)
    i = first
    while i < end
        x = load kept+i:8
        call kmem_cache_free(s, c, n, mem, map, pool, x)
        i = i + 8
"""
CACHE = ("s", "c", "n", "mem", "map", "pool")


def kept(m: Memory, count: int, cpu: int = 0, first: int = 0) -> list[int]:
    return [m.word(m.at("kept", cpu) + 8 * i) for i in range(first, count)]


def test_first_objects_of_a_slab_in_order() -> None:
    m = simulated(HEAD + "path p\n    call alloc_many(160)\nrun\n    cpu 0 runs p once\n", cpus=1)
    base = m.at("mem")
    assert kept(m, 20) == [base + 1024 * i for i in range(20)]          # three slabs of 8 KiB, one after the other
    assert check_slabs(m, *CACHE, cpus=1, held=kept(m, 20)) == 3
    assert m.counted["slub_alloc_slow"] == 3 and m.counted["slub_new_slab"] == 3
    assert m.get("n", "nr_partial") == 0                                 # the full ones are on no list


def test_free_in_order_of_allocation() -> None:
    m = simulated(HEAD + "path p\n    call alloc_many(160)\n    call free_many(0, 160)\nrun\n    cpu 0 runs p once\n", cpus=1)
    assert check_slabs(m, *CACHE, cpus=1, held=[]) == 1                  # the current one stays
    assert m.counted["slub_free_slow"] == 16                             # objects of the two other slabs; four of the current one are fast
    assert m.counted["slub_discard_slab"] == 2
    third = m.at("mem") + 2 * 8192
    assert m.get("c", "freelist") == third + 3 * 1024                    # last in, first out


def test_a_full_slab_becomes_partial_and_is_used_again() -> None:
    text = "path p\n    call alloc_many(160)\n    call free_many(16, 32)\n    call alloc_many(48)\nrun\n    cpu 0 runs p once\n"
    m = simulated(HEAD + text, cpus=1)
    # 20 allocated, objects 2 and 3 of the first slab freed: partial. Four come from the current slab, then the partial one gives
    # object 3 (freed last) and object 2: no new slab.
    base = m.at("mem")
    assert kept(m, 6) == [base + 1024 * i for i in (20, 21, 22, 23, 3, 2)]
    assert m.counted["slub_new_slab"] == 3 and m.counted["slub_alloc_slow"] == 4 and m.counted["slub_discard_slab"] == 0
    assert m.get("n", "nr_partial") == 0 and m.get("c", "page") == m.at("map")


def test_a_given_back_slab_is_the_next_new_one() -> None:
    text = "path p\n    call alloc_many(136)\n    call free_many(0, 64)\n    call alloc_many(64)\nrun\n    cpu 0 runs p once\n"
    m = simulated(HEAD + text, cpus=1)
    # 17 allocated; the first slab is freed whole and given back. Seven come from the current slab, the eighth needs a new one.
    base = m.at("mem")
    assert kept(m, 8) == [base + 1024 * i for i in (17, 18, 19, 20, 21, 22, 23, 0)]
    assert m.counted["slub_new_slab"] == 4 and m.counted["slub_discard_slab"] == 1
    assert check_slabs(m, *CACHE, cpus=1, held=kept(m, 17)) == 3
    assert m.get("pool", "fresh") == base + 3 * 8192


def test_remote_free_takes_the_slow_path() -> None:
    text = """path owner
    call alloc_many(64)
    store flag+0:4 = 1
    t = load flag+4:4
    spin while t == 0
        pause
        t = load flag+4:4
    call alloc_many(64)
path other
    t = load flag+0:4
    spin while t == 0
        pause
        t = load flag+0:4
    k = 0
    b = addr kept[k]
    i = 0
    while i < 64
        t = b + i
        x = load [t]:8
        call kmem_cache_free(s, c, n, mem, map, pool, x)
        i = i + 8
    store flag+4:4 = 1
run
    cpu 0 runs owner once
    cpu 1 runs other once
"""
    m = simulated(HEAD + text, cpus=2)
    base = m.at("mem")
    assert m.counted["slub_free_slow"] == 8                              # the slab is the owner's current one: frozen, so it stays
    assert m.counted["slub_discard_slab"] == 0 and m.counted["slub_new_slab"] == 1
    assert m.counted["slub_alloc_slow"] == 2                             # the second time: the page's own freelist
    assert kept(m, 8) == [base + 1024 * i for i in range(7, -1, -1)]
    assert check_slabs(m, *CACHE, cpus=2, held=kept(m, 8)) == 1


EXCHANGE = """object box bytes 128 per-cpu
path exchange
    me = load this_cpu.number
    next = me + 1
    next = next & 3
    i = 0
    while i < 120
        x = call kmem_cache_alloc(s, c, n, mem, map, pool)
        k = i * 8
        k = k & 127
        b = addr box[next]
        b = b + k
        old = rmw xchg [b]:8, x
        if old != 0
            call kmem_cache_free(s, c, n, mem, map, pool, old)
        b = addr box[me]
        b = b + k
        old = rmw xchg [b]:8, 0
        if old != 0
            call kmem_cache_free(s, c, n, mem, map, pool, old)
        work 40
        i = i + 1
run
    cpu 0.. runs exchange once
"""


@pytest.mark.parametrize("lookahead", [True, False])
def test_four_cpus_exchange_objects(lookahead: bool) -> None:
    m = simulated(HEAD + EXCHANGE, cpus=4, lookahead=lookahead)
    held = [x for k in range(4) for i in range(16) if (x := m.word(m.at("box", k) + 8 * i))]
    assert len(held) == len(set(held))
    check_slabs(m, *CACHE, cpus=4, held=held)
    assert m.counted["slub_free_slow"] > 60                              # most objects are freed by the neighbour of who allocated them


def test_kfree_reads_the_slab_through_the_head_page() -> None:
    text = """path p
    call alloc_many(64)
    x = load kept+56:8
    call kfree(s, c, n, mem, map, pool, x)
    page = call virt_to_head_page(x, mem, map)
    store flag+8:8 = page
run
    cpu 0 runs p once
"""
    m = simulated(HEAD + text, cpus=1)
    assert m.word(m.at("kept") + 56) == m.at("mem") + 7168               # in the second page of the slab: a tail page
    assert m.word(m.at("flag") + 8) == m.at("map")
    assert m.get("c", "freelist") == m.at("mem") + 7168 and m.counted["slub_free_slow"] == 0
