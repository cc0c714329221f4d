"""workloads/lib/softirq.trace and qdisc.trace: who runs what and when, and in which order packets leave."""

from __future__ import annotations

import pytest
from kernel_memory import Memory, simulated

NAPI = """cohsim-trace 1
kernel 2.6.31
include "netdev_2_6_31.trace"
include "softirq.trace"
include "qdisc.trace"
struct backlog_words size 64
    left    0 4
    polls   4 4
    started 8 4
    order  16 8
object backlog backlog_words per-cpu
object napi_a napi_struct per-cpu init weight=64
object napi_b napi_struct per-cpu init weight=64
param WORK 1000
function dev_hard_start_xmit(skb, txq)
    return 0
function kfree_skb(skb)
    work 1
function napi_poll(n)
    t = load backlog.polls
    store backlog.polls = t + 1
    k = load backlog.left
    if k > NAPI_WEIGHT
        k = NAPI_WEIGHT
    t = load backlog.left
    t = t - k
    store backlog.left = t
    if k < NAPI_WEIGHT
        call napi_complete(n)
    return k
path tick
    call irq_enter
    t = load backlog.started
    if t == 0
        store backlog.started = 1
        store backlog.left = WORK
        n = addr napi_a.poll_list.next
        call napi_schedule(n)
        call napi_schedule(n)
    call irq_exit
path main
    forever
        call idle_or_ksoftirqd
run
    timer 20us runs tick
    cpu 0.. runs main once
"""


def napi(work: int) -> Memory:
    m = simulated(NAPI.replace("WORK 1000", f"WORK {work}"), cpus=1, until_ns=400_000)
    assert m.get("backlog", "left") == 0 and m.get("napi_a", "state") == 0
    head = m.at("softnet") + 32
    assert m.get("softnet", "poll_list.next") == head and m.get("softnet", "poll_list.prev") == head
    assert m.get("irq_stat", "__softirq_pending") == 0
    return m


@pytest.mark.parametrize(
    "work, polls, squeezes, woken",
    [
        (10, 1, 0, 0),
        (64, 2, 0, 0),          # a full weight is not the end: one more poll finds nothing
        (256, 5, 0, 0),         # four full polls use 256 of the budget of 300; the fifth completes
        (1000, 16, 3, 0),       # 15 full polls and one of 40; the budget ends after the 5th, 10th and 15th
        (3200, 51, 10, 1),      # ten rounds of five polls are all that __do_softirq does: ksoftirqd polls once more
        (4000, 63, 12, 1),      # … or 13 times: two more budgets end
    ],
)
def test_budget_rounds_and_ksoftirqd(work: int, polls: int, squeezes: int, woken: int) -> None:
    m = napi(work)
    assert m.get("backlog", "polls") == polls
    assert m.counted["time_squeeze"] == squeezes == m.get("softnet", "time_squeeze")
    assert m.counted["ksoftirqd_wakeup"] == woken
    assert m.get("ksoftirqd", "runnable") == 0 and m.get("current", "flags") == 0


def test_interrupts_nest_but_softirqs_do_not() -> None:
    # Ticks arrive every 20 us while the first softirq still runs (4000 polls' work takes longer): they return to it.
    text = NAPI.replace("    return k\n", "    work 20000\n    return k\n", 1)
    m = simulated(text, cpus=1, until_ns=2_000_000)
    assert m.get("backlog", "polls") == 16
    assert m.get("current", "preempt_count") & 0xFF00 in (0, 0x100)


def test_two_instances_take_turns() -> None:
    # Both always have a full weight's work: after each poll the instance goes to the end of the list.
    note = """    t = load backlog.order
    t = t << 1
    k = addr napi_b.poll_list.next
    if n == k
        t = t + 1
    store backlog.order = t
    t = load backlog.polls
"""
    schedule = "        call napi_schedule(n)\n"
    text = NAPI.replace("    t = load backlog.polls\n", note, 1)
    text = text.replace(2 * schedule, schedule + "        n = addr napi_b.poll_list.next\n" + schedule)
    m = simulated(text.replace("WORK 1000", "WORK 384"), cpus=1, until_ns=400_000)
    # 384 = six full polls: a b a b a | budget | b; then a finds nothing and completes, b too.
    assert f"{m.get('backlog', 'order'):08b}" == "01010101"
    assert m.get("backlog", "polls") == 8 and m.counted["time_squeeze"] == 1


QDISC = """cohsim-trace 1
kernel 2.6.31
include "netdev_2_6_31.trace"
include "qdisc.trace"
struct log_words size 128
    sent   0 4
    freed  4 4
    list  64 64
object log log_words shared
object dev net_device shared init _tx=addr queue tx_queue_len=2
object queue netdev_queue shared init dev=addr dev qdisc=addr disc xmit_lock_owner=-1
object disc Qdisc shared init dev_queue=addr queue band0.next=addr disc.band0.next \
band0.prev=addr disc.band0.next band1.next=addr disc.band1.next band1.prev=addr disc.band1.next \
band2.next=addr disc.band2.next band2.prev=addr disc.band2.next
object packets bytes 2KiB shared
param STOP_AFTER 100
function napi_poll(n)
    return 0
function kfree_skb(skb)
    t = load log.freed
    store log.freed = t + 1
function dev_hard_start_xmit(skb, txq)
    t = load log.sent
    k = t * 8
    store log.list+k:8 = skb
    store log.sent = t + 1
    t = t + 1
    if t == STOP_AFTER
        set_bit txq->netdev_queue.state, 0
    return 0
function packet(i, priority)
    skb = addr packets[i * 256]
    store skb->sk_buff.len = 60
    store skb->sk_buff.priority = priority
    return skb
function send(i, priority)
    skb = call packet(i, priority)
    k = addr disc
    spin_lock disc.q.lock
    r = call qdisc_enqueue_root(skb, k)
    call qdisc_run(k)
    spin_unlock disc.q.lock
path p
"""
END = "run\n    timer 500us runs nothing\n    cpu 0 runs p once\n"


def qdisc(body: str, **params: int) -> Memory:
    text = QDISC + "".join(f"    {line}\n" for line in body.split("; ")) + "path nothing\n    work 1\n" + END
    for name, value in params.items():
        text = text.replace(f"param {name} 100", f"param {name} {value}")
    m = simulated(text, cpus=1, until_ns=300_000)
    for lock in (m.get("disc", "q.lock"), m.get("queue", "_xmit_lock")):
        assert lock & 0xFF == lock >> 8
    assert m.get("queue", "xmit_lock_owner") == 0xFFFFFFFF and m.get("disc", "state") & 1 == 0
    return m


def sent(m: Memory) -> list[int]:
    return [(m.word(m.at("log") + 64 + 8 * i) - m.at("packets")) // 256 for i in range(m.get("log", "sent"))]


def test_each_packet_is_sent_at_once() -> None:
    m = qdisc("call send(0, 0); call send(1, 0); call send(2, 0)")
    assert sent(m) == [0, 1, 2]
    assert m.get("disc", "q.qlen") == 0 and m.get("disc", "bstats.packets") == 3 and m.get("disc", "bstats.bytes") == 180
    assert m.get("disc", "qstats.backlog") == 0 and m.get("disc", "band1.next") == m.at("disc") + 216


def test_a_stopped_queue_keeps_its_packet_and_drops_beyond_the_limit() -> None:
    m = qdisc("set_bit queue.state, 0; call send(0, 0); call send(1, 0); call send(2, 0); call send(3, 0)")
    assert sent(m) == []
    assert m.get("disc", "gso_skb") == m.at("packets")                  # dequeued, then found the queue stopped
    assert m.get("disc", "q.qlen") == 3 and m.get("disc", "band1.qlen") == 2
    assert m.get("log", "freed") == 1 == m.get("disc", "qstats.drops") == m.counted["qdisc_drop"] == m.counted["dropped"]
    assert m.get("disc", "state") == 2 and m.get("softnet", "output_queue") == m.at("disc")       # scheduled for NET_TX
    assert m.get("irq_stat", "__softirq_pending") == 4


def test_net_tx_sends_what_was_put_off_in_order() -> None:
    stop = "set_bit queue.state, 0; call send(0, 0); call send(1, 0); call send(2, 0); clear_bit queue.state, 0"
    m = qdisc(stop + "; irq_off; call __do_softirq; irq_on")
    assert sent(m) == [0, 1, 2]
    assert m.get("disc", "state") == 0 and m.get("disc", "q.qlen") == 0 and m.get("disc", "gso_skb") == 0 and m.get("softnet", "output_queue") == 0


def test_bands_by_priority() -> None:
    stop = "set_bit queue.state, 0; call send(0, 0); call send(1, 2); call send(2, 0); call send(3, 6); clear_bit queue.state, 0"
    # prio2band: 0 -> 1, 2 -> 2, 6 -> 0. Packet 0 is already out of its band when the queue is found stopped.
    m = qdisc(stop + "; irq_off; call __do_softirq; irq_on")
    assert sent(m) == [0, 3, 2, 1]


def test_the_ring_fills_while_running() -> None:
    stop = "set_bit queue.state, 0; call send(0, 0); call send(1, 0); call send(2, 0); clear_bit queue.state, 0"
    m = qdisc(stop + "; irq_off; call __do_softirq; irq_on", STOP_AFTER=2)
    assert sent(m) == [0, 1] and m.get("disc", "q.qlen") == 1          # stopped behind the second: what is left waits
    assert m.get("disc", "gso_skb") == 0 and m.get("disc", "state") == 0


def test_somebody_else_runs_it() -> None:
    body = "    store disc.state = 1\n    call send(0, 0)\n    store disc.state = 0\n"
    m = simulated(QDISC + body + "path nothing\n    work 1\n" + END, cpus=1, until_ns=300_000)
    assert sent(m) == [] and m.get("disc", "band1.qlen") == 1          # RUNNING was set: only enqueued


def test_a_jiffy_ends_the_run() -> None:
    stop = "set_bit queue.state, 0; call send(0, 0); call send(1, 0); call send(2, 0); clear_bit queue.state, 0"
    tick = "    if t == 0\n        k = load jiffies_word.jiffies\n        store jiffies_word.jiffies = k + 1\n"
    text = QDISC.replace("    store log.sent = t + 1\n", "    store log.sent = t + 1\n" + tick)
    body = (stop + "; irq_off; call __do_softirq; irq_on").replace("; ", "\n    ")
    m = simulated(text + "    " + body + "\npath nothing\n    work 1\n" + END, cpus=1, until_ns=300_000)
    # After packet 0 the clock has moved on: rescheduled; the second NET_TX round sends the others.
    assert sent(m) == [0, 1, 2] and m.get("disc", "state") == 0


def jhash(word: int, salt: int) -> int:
    """Bob Jenkins' hash of one 32-bit word, as Linux 2.6 uses it: the mixing steps on 32-bit values."""
    mask = 0xFFFFFFFF
    a, b, c = (word + 0x9E3779B9) & mask, 0x9E3779B9, salt
    for x, y, z in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = (a - b - c) & mask ^ c >> x
        b = (b - c - a) & mask ^ a << y & mask
        c = (c - a - b) & mask ^ b >> z
    return c


@pytest.mark.parametrize("salt", [0x5C0FE1D3, 1, 0xFFFFFFFF])
@pytest.mark.parametrize("queues", [3, 8])
def test_skb_tx_hash(salt: int, queues: int) -> None:
    text = f"""cohsim-trace 1
include "kernel.trace"
include "netdev_2_6_31.trace"
include "tx_queue_2_6_31.trace"
param TX_HASH_SALT {salt}
object skb sk_buff shared init protocol=0x0008
object out bytes 64 shared
function pick(mapping, at)
    store skb.queue_mapping = mapping
    p = addr skb
    n = {queues}
    q = call skb_tx_hash(p, n)
    store out+at:8 = q
path p
    call pick(0, 0)
    call pick(3, 8)
    call pick({queues + 2}, 16)
run
    cpu 0 runs p once
"""
    m = simulated(text.replace(f"param TX_HASH_SALT {salt}\n", "").replace("path p\n", f"path p\n    store tx_hash_seed.hashrnd = {salt}\n"), cpus=1)
    picked = [m.word(m.at("out") + 8 * i) for i in range(3)]
    assert picked == [jhash(8, salt) * queues >> 32, 2 % queues, (queues + 1) % queues]     # recorded: receive queue = mapping - 1
