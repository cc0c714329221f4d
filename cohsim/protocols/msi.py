"""MSI: the rows every other protocol inherits."""
from __future__ import annotations

from cohsim.protocols import vocabulary as v
from cohsim.protocols.language import Controller


def node() -> Controller:
    """Table of a node."""
    c = Controller("node", {"I": "N", "S": "R", "M": "RW", "IS": "N", "IM": "N", "SM": "R", "MI": "N", "II": "N"},
                   v.NODE_EVENTS, v.NODE_ACTIONS)
    return c.add("""
    # stable ---------------------------------------------------------------------
    I       Load             send_GetS                        -> IS
    I       Store            send_GetM                        -> IM
    I       SnpS,SnpM        rsp_none                                     # a copy dropped silently, or a broadcast
    S       Load             load
    S       Store            send_Upg                         -> SM
    S       Evict            drop                             -> I        # silent: the home's bit goes stale
    S       SnpS             rsp_shared
    S       SnpM             rsp_none drop                    -> I
    M       Load             load
    M       Store            store
    M       Evict            send_PutM                        -> MI
    M       SnpS             rsp_dirty                        -> S
    M       SnpM             rsp_dirty_gone drop              -> I
    # a request is on its way or waits at the home ---------------------------------
    IS,IM   Load,Store,Evict stall
    IS,IM   SnpS,SnpM        rsp_none
    IS      DataS            take_data load ack               -> S
    IM      DataM            take_data store ack              -> M
    SM      Load             load
    SM      Store,Evict      stall
    SM      SnpS             rsp_shared
    SM      SnpM             rsp_none cancel drop             -> IM       # another's upgrade came first
    SM      Grant            store ack                        -> M
    # written back, not yet acknowledged --------------------------------------------
    MI,II   Load,Store,Evict stall
    MI      SnpS,SnpM        rsp_dirty_gone cancel            -> II
    II      SnpS,SnpM        rsp_none
    MI,II   PutAck           drop                             -> I
    """)


def home() -> Controller:
    """Table of a home."""
    c = Controller("home", {"Free": "-", "Busy": "-", "Wait": "-"}, v.HOME_EVENTS, v.HOME_ACTIONS)
    return c.add("""
    Free  GetS               snoop_read                       -> Busy
    Free  GetM,Upg,Recall    snoop_write                      -> Busy
    Free  PutM               write del_req put_ack
    Free  PutMStale          put_ack
    Busy  GetS,GetM,Upg,PutM,PutMStale,Recall  stall
    Wait  GetS,GetM,Upg,PutMStale,Recall       stall        # no PutM: a dirty node's eviction was overtaken by the snoop
    Busy  RspNone            note
    Busy  RspShared          note_sharer
    Busy  RspDirty           note_sharer note_data write
    Busy  RspDirtyGone       note_data write
    Busy  ReadyS,ReadyE      send_DataS add_req               -> Wait
    Busy  ReadyM             send_DataM only_req own_req      -> Wait
    Busy  ReadyG             send_Grant only_req own_req      -> Wait
    Busy  ReadyR             no_holder finish                 -> Free
    Wait  Ack                finish                           -> Free
    """)
