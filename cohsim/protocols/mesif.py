"""MESIF: MESI, and at a broadcast home the newest clean sharer answers the next reader.

A directory home (core-valid bits in an inclusive cache) answers readers of shared lines itself and asks no sharer; F then
means no more than S, and several nodes may be in F (``cohsim protocol check`` finds F F when it demands a single one).
"""
from __future__ import annotations

from cohsim.protocols import mesi
from cohsim.protocols.language import Controller


def node() -> Controller:
    """Table of a node."""
    c = mesi.node()
    c.states.update(F="R", FM="R")
    return c.add("""
    IS    DataF              take_data load ack               -> F
    F     Load               load
    F     Store              send_Upg                         -> FM
    F     Evict              drop                             -> I
    F     SnpS               rsp_clean                        -> S
    F     SnpM               rsp_clean_gone drop              -> I
    FM    Load               load
    FM    Store,Evict        stall
    FM    SnpS               rsp_clean                        -> SM
    FM    SnpM               rsp_clean_gone cancel drop       -> IM
    FM    Grant              store ack                        -> M
    """).remove("IS DataS")


def home() -> Controller:
    """Table of a home."""
    return mesi.home().add("""
    Busy  ReadyS             send_DataF add_req               -> Wait
    """, override=True)
