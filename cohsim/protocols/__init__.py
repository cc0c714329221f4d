"""Coherence protocols as tables of rows, read by the core, the checker and the docs."""
from __future__ import annotations

from cohsim.protocols import mesi, mesif, moesi, msi
from cohsim.protocols.language import Controller, FlatTable, compile_table
from cohsim.protocols.vocabulary import HOME_STATES, NODE_STATES

PROTOCOLS = {"msi": msi, "mesi": mesi, "mesif": mesif, "moesi": moesi}


def tables(name: str) -> tuple[Controller, Controller]:
    """(node, home) tables of a protocol by name."""
    module = PROTOCOLS[name]
    return module.node(), module.home()


def flat_tables(name: str) -> tuple[FlatTable, FlatTable]:
    """(node, home) tables of a protocol, flattened for the core."""
    node, home = tables(name)
    return compile_table(node, NODE_STATES), compile_table(home, HOME_STATES)
