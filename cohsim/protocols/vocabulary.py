"""The closed vocabulary shared by all protocols. Adding a protocol adds rows; adding a word here adds one branch to each executor.

Message flow (all four protocols). A node (private L2, or the L2 of a cluster) sends GetS, GetM, Upg or PutM to the line's home. The home
takes one request per line at a time: it snoops the other nodes (all of them, or those its core-valid bits name), looks its own
data up, and when every answer is in, sends Data or Grant to the requester; it takes the next request when the requester's
Ack is back. Messages from one node to the home stay in order; nothing else is assumed about the network.

A snoop answer that carries ``cancel`` tells the home that a request of this node which waits at the home for the same line
has changed its meaning: an Upg has lost its copy (it needs data now), a PutM has given its data away (nothing to write).
"""
from __future__ import annotations

NODE_STATES = ("I", "S", "E", "F", "O", "M", "IS", "IM", "SM", "FM", "OM", "MI", "II")
"""Stable states, then transients: IS/IM wait for data; SM/FM/OM wait for the right to write a copy they hold; MI, II wait for PutAck."""

NODE_EVENTS = ("Load", "Store", "Evict", "SnpS", "SnpM", "DataS", "DataE", "DataF", "DataM", "Grant", "PutAck")

NODE_ACTIONS = ("load", "store", "send_GetS", "send_GetM", "send_Upg", "send_PutM", "take_data", "ack", "drop",
                "rsp_none", "rsp_shared", "rsp_clean", "rsp_clean_gone", "rsp_dirty", "rsp_dirty_gone", "rsp_owned", "cancel")
"""rsp_*: answer a snoop. none: no copy here now; shared: a copy stays, no data sent; clean / dirty: data sent, a clean copy stays;
clean_gone / dirty_gone: data sent, no copy stays; owned: dirty data sent, this node stays responsible for it."""

HOME_STATES = ("Free", "Busy", "Wait")
"""Free: no transaction on the line; Busy: answers or data outstanding; Wait: data or grant sent, requester's Ack outstanding."""

HOME_EVENTS = ("GetS", "GetM", "Upg", "PutM", "PutMStale", "Recall", "RspNone", "RspShared", "RspClean", "RspCleanGone", "RspDirty",
               "RspDirtyGone", "RspOwned", "ReadyS", "ReadyE", "ReadyM", "ReadyG", "ReadyR", "Ack")
"""Recall: an inclusive home needs the line's place. Ready*: all answers and the data are in, and the requester gets a shared copy, an
exclusive copy, a writable copy, the right to write its copy; R: the recalled line is gone from all nodes."""

HOME_ACTIONS = ("snoop_read", "snoop_write", "note", "note_sharer", "note_data", "note_owner", "write", "put_ack",
                "send_DataS", "send_DataE", "send_DataF", "send_DataM", "send_Grant", "add_req", "only_req", "no_holder", "del_req",
                "own_req", "finish")
"""snoop_*: ask the other holders; note*: collect an answer; write: put data into the home's cache or memory; add_req / only_req / del_req /
no_holder: core-valid bits; own_req: the requester may modify its copy without asking; finish: take the next waiting request."""
