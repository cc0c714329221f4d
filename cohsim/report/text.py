"""The report ``cohsim run`` and ``cohsim report`` print: rate, where time goes, profile, hottest lines, anything unusual."""

from __future__ import annotations

from typing import Any

from cohsim.report.table import count, percent, plain, shorten, side_by_side, table
from cohsim.results.waits import LIVELY, sentence

WIDTH = 100
NAME_WIDTH = 30
GAP = 3  # between the two profiles
CATEGORY_MEANING = {
    "issue": "executing instructions",
    "l1": "L1 hits waited for",
    "l2": "L2, line wait included",
    "cluster": "line from another core of the cluster",
    "home": "L3 or memory-side cache",
    "remote_clean": "unmodified line from another node",
    "remote_dirty": "modified line from another node",
    "upgrade": "other copies dropped",
    "memory": "DRAM",
    "store_buffer": "store buffer full",
    "atomic": "locked operation or LL/SC",
    "retry": "reservation lost, again",
    "fence": "fences",
    "spin": "wait loops",
}


def render(summary: dict[str, Any], top: int = 12, primitives_only: bool = False, width: int = WIDTH) -> str:
    """The report as text that ends in a newline. ``top`` bounds the rows of each table."""
    noted = notices(summary)
    blocks = [_headline(summary), *([noted] if noted else [])]
    if primitives_only:
        blocks.append(_profile("atomics on their own", summary["primitives"], top))
    else:
        blocks += [_time(summary, width)]
        if summary["nics"]:
            blocks += [_nics(summary), _cpus(summary, width)]
        blocks += [_profiles(summary, top, width), _lines(summary, top, width)]
    if summary["assumptions"]:
        blocks.append([f"the workload states {len(summary['assumptions'])} assumptions; --json lists them"])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _headline(summary: dict[str, Any]) -> list[str]:
    whom = f"{summary['cpus']} CPUs" if summary["cpu"] is None else f"CPU {summary['cpu']} of {summary['cpus']}"
    head = f"{summary['workload']} on {summary['machine']}, {whom}, seed {summary['seed']}"
    rate = summary["packet_rate_pps"]
    if rate is not None:
        work = [
            f"{count(rate, 'packet/s')}",
            f"{summary['throughput_bps'] / 1e9:.3f} Gbit/s",
            f"{plain(summary['dropped'])} dropped",
        ]
    elif summary["iterations"]:
        work = [f"{count(summary['iterations_per_second'], 'iterations/s')}"]
    else:
        work = []
    each = summary["ns_per_iteration_per_cpu"]
    work.append(f"{nanoseconds(each)} each per CPU" if each is not None else "no iteration completed")
    work.append(f"CPU utilization {100 * summary['cpu_utilization']:.1f}%")
    window = f"measured {count(summary['measured_ns'] / 1e3)} us after {count(summary['warmup_ns'] / 1e3)} us of warm-up"
    host = summary["memory_operations_per_host_second"]
    speed = f"{count(summary['memory_operations'])} memory operations in {summary['host_seconds']:.2f} s of host time"
    chosen = [f"  {clock_choice(summary['clock'])}"] if summary["clock"]["trials"] else []
    return [head, "  " + ", ".join(work), f"  {window}; {speed}" + (f", {count(host)}/s" if host else ""), *chosen]


def megahertz(hz: float) -> str:
    """A clock: 1733 MHz."""
    return f"{hz / 1e6:.0f} MHz"


def clock_choice(clock: dict[str, Any]) -> str:
    """One sentence: the clock that the governor chose, and the trials. Of a summary's ``clock`` that has trials."""
    trials = ", ".join(f"{megahertz(trial['core_hz'])} {percent(trial['load'])}" for trial in clock["trials"])
    return f"core clock {megahertz(clock['core_hz'])}, governor {clock['governor']}; busiest CPU's load at {trials}"


def _nics(summary: dict[str, Any]) -> list[str]:
    rows = [
        [
            nic["name"],
            count(nic["offered_pps"]),
            count(nic["rx_frames"]),
            count(nic["missed"]),
            percent(nic["paused"]),
            count(nic["tx_frames"]),
            count(nic["rx_interrupts"] + nic["tx_interrupts"]),
            count(nic["doorbells"]),
        ]
        for nic in summary["nics"]
    ]
    heads = ["NIC", "offered/s", "received", "lost", "paused", "sent", "interrupts", "doorbells"]
    counters = ", ".join(f"{name} {plain(value)}" for name, value in summary["counters"].items())
    return [*table(heads, rows, "<>>>>>>>"), *([f"counted: {counters}"] if counters else [])]


def _cpus(summary: dict[str, Any], width: int) -> list[str]:
    """Who is busy, with what, and how long the others wait, spin or idle."""
    rows = []
    for cpu in summary["cpus_detail"]:
        shares = cpu["shares"]
        waits = sum(v for k, v in shares.items() if k not in ("idle", "spin", "issue"))
        work = ", ".join(f"{f['name']} {percent(f['share'])}" for f in cpu["functions"])
        rows.append(
            [str(cpu["cpu"]), percent(cpu["utilization"]), percent(shares.get("issue", 0.0)), percent(waits), percent(shares.get("spin", 0.0)),
             percent(shares.get("idle", 0.0)), work]
        )
    lines = table(["CPU", "busy", "executing", "waiting", "spinning", "idle", "most of its time in"], rows, ">>>>>><")
    return [saturation(summary), *(line[:width] for line in lines)]


def saturation(summary: dict[str, Any], limit: float = 0.95) -> str:
    """One sentence: which CPUs have no time left, and what they do."""
    full = [cpu for cpu in summary["cpus_detail"] if cpu["utilization"] > limit]
    if not full:
        most = max(summary["cpus_detail"], key=lambda cpu: cpu["utilization"])
        return f"no CPU is saturated: the busiest, CPU {most['cpu']}, is busy {percent(most['utilization'])} of the time"
    names = ", ".join(str(cpu["cpu"]) for cpu in full)
    others = [cpu["utilization"] for cpu in summary["cpus_detail"] if cpu["utilization"] <= limit]
    rest = f"; no other is busy more than {percent(max(others))}" if others else ""
    what = ", ".join(f"{f['name']} {percent(f['share'])}" for f in full[0]["functions"])
    return f"saturated: CPU {names} ({what}){rest}" if len(full) == 1 else f"saturated: CPUs {names}{rest}"


def nanoseconds(nanoseconds: float) -> str:
    """Nanoseconds with four digits, never as a power of ten."""
    return f"{nanoseconds:.4g} ns" if nanoseconds < 1000 else f"{nanoseconds:,.0f} ns"


def notices(summary: dict[str, Any]) -> list[str]:
    """One line for each thing that limits what the figures mean."""
    found = []
    if summary["stop"] != "finished":
        found.append(f"the run ended early ({summary['stop']}): the figures cover what ran until then")
    if summary["clock"]["alternates"]:
        between = " and ".join(map(megahertz, summary["clock"]["alternates"]))
        found.append(f"the {summary['clock']['governor']} governor does not settle, it alternates between {between}: "
                     f"the figures are those of {megahertz(summary['clock']['core_hz'])}")
    if summary["dropped"] and summary["nics"]:
        found.append(f"{plain(summary['dropped'])} packets were dropped: {plain(sum(nic['missed'] for nic in summary['nics']))} by a NIC, "
                     f"{plain(summary['counters'].get('dropped', 0))} by the workload's queues")
    elif summary["dropped"]:
        offered = summary["dropped"] + summary["received"]
        found.append(f"{plain(summary['dropped'])} of {plain(offered)} packets found the receive queue full and were dropped")
    if summary["tx_dropped"]:
        found.append(f"{plain(summary['tx_dropped'])} packets were dropped because the egress link was too far behind")
    if summary.get("paused"):
        found.append(f"back-pressure: the sender was held back {percent(summary['paused'])} of the time, so less was offered than stated")
    if summary["line_overflow"]:
        found.append(
            f"the line table was full: {plain(summary['line_overflow'])} line events are missing in the table of lines"
        )
    stuck = summary.get("stuck", [])      # absent from summaries that an earlier version wrote
    if not summary["iterations"] and not summary["recorded"]:
        waits = f"; it may take for ever: {sentence(stuck)}" if stuck else ""
        found.append(f"no iteration was completed in the measured window: measure longer (--measure){waits}")
    elif passed := [row for row in stuck if row["others"] >= LIVELY]:
        most = plain(max(row["others"] for row in passed))
        found.append(f"no progress, while another CPU completed {most} iterations: {sentence(passed)}")
    return [f"note: {notice}" for notice in found]


def _time(summary: dict[str, Any], width: int) -> list[str]:
    shares = [(name, share) for name, share in summary["time_shares"].items() if share >= 0.00005]
    shares.sort(key=lambda item: -item[1])
    rows = [[name, percent(share), "#" * round(40 * share), CATEGORY_MEANING[name]] for name, share in shares]
    return [line[:width] for line in table(["busy time in", "share", "", ""], rows, "<><<")]


def _profile(title: str, rows: list[dict[str, Any]], top: int, name_width: int = NAME_WIDTH) -> list[str]:
    shown = [
        [
            f"{percent(row['share']):>6}",
            f"{count(row['self_cycles']):>6}",
            f"{count(row['calls']):>6}",
            shorten(row["name"], name_width),
        ]
        for row in rows[:top]
    ]
    body = table(["share", "cycles", "calls", title], shown, ">>><")
    rest = rows[top:]
    return [*body, f"{percent(sum(row['share'] for row in rest)):>6}  in {len(rest)} more"] if rest else body


def _profiles(summary: dict[str, Any], top: int, width: int) -> list[str]:
    """The two views next to each other; names are cut to make that possible."""
    name_width = max(20, (width - GAP) // 2 - 3 * (6 + 2))  # three columns of six and their separators
    inlined = _profile("atomics inlined", summary["functions"], top, name_width)
    alone = _profile("atomics on their own", summary["primitives"], top, name_width)
    return side_by_side(inlined, alone, width, " " * GAP)


def line_name(line: dict[str, Any]) -> str:
    """Name of a line in reports: ``route+128``; an address stands for itself."""
    return line["object"] if line["object"].startswith("0x") else f"{line['object']}+{line['offset']}"


def _lines(summary: dict[str, Any], top: int, width: int) -> list[str]:
    rows = []
    for line in [line for line in summary["lines"] if line["stall_ns"] or line["transfers"]][:top]:
        fields = ", ".join(line["fields"]) + (
            f"  (shares the line with {', '.join(line['shared_with'])})" if line["shared_with"] else ""
        )
        rows.append(
            [
                percent(line["stall_share"]),
                count(line["transfers"]),
                count(line["remote_dirty"]),
                count(line["invalidations"]),
                count(line["retries"]),
                shorten(line_name(line), NAME_WIDTH),
                fields,
            ]
        )
    if not rows:
        return ["no line was waited for or moved"]
    used = len(table(["stall", "moves", "dirty", "inval", "retries", "line"], [row[:6] for row in rows], ">>>>><")[1]) + 2
    rows = [[*row[:6], shorten(row[6], max(10, width - used))] for row in rows]
    return [
        "hottest lines  (stall: share of busy time spent waiting for it; moves: between cores or nodes)",
        *table(["stall", "moves", "dirty", "inval", "retries", "line", "fields"], rows, ">>>>><<"),
    ]
