"""MOESI: MESI, and a dirty line can be shared without writing memory."""
from __future__ import annotations

from cohsim.protocols import mesi
from cohsim.protocols.language import Controller


def node() -> Controller:
    """Table of a node."""
    c = mesi.node()
    c.states.update(O="R", OM="R")
    c.add("""
    M     SnpS               rsp_owned                        -> O
    """, override=True)
    return c.add("""
    O     Load               load
    O     Store              send_Upg                         -> OM
    O     Evict              send_PutM                        -> MI
    O     SnpS               rsp_owned
    O     SnpM               rsp_dirty_gone drop              -> I
    OM    Load               load
    OM    Store,Evict        stall
    OM    SnpS               rsp_owned
    OM    SnpM               rsp_dirty_gone cancel drop       -> IM
    OM    Grant              store ack                        -> M
    """)


def home() -> Controller:
    """Table of a home."""
    return mesi.home().add("""
    Busy  RspOwned           note_sharer note_data note_owner
    Wait  PutM               stall                            # an owner that was asked to share evicts
    """).remove("Busy RspDirty")
