"""MESI: MSI, and a reader that is alone may write without asking."""
from __future__ import annotations

from cohsim.protocols import msi
from cohsim.protocols.language import Controller


def node() -> Controller:
    """Table of a node."""
    c = msi.node()
    c.states["E"] = "RW"
    return c.add("""
    IS    DataE              take_data load ack               -> E
    E     Load               load
    E     Store              store                            -> M        # silent
    E     Evict              drop                             -> I
    E     SnpS               rsp_clean                        -> S
    E     SnpM               rsp_clean_gone drop              -> I
    """)


def home() -> Controller:
    """Table of a home."""
    c = msi.home()
    c.add("""
    Busy  ReadyE             send_DataE only_req own_req      -> Wait
    """, override=True)
    return c.add("""
    Busy  RspClean           note_sharer note_data
    Busy  RspCleanGone       note_data
    """)
