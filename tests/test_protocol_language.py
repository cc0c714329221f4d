"""The row language and its flat form."""
from __future__ import annotations

import pytest

from cohsim.errors import ProtocolTableError
from cohsim.protocols import PROTOCOLS, flat_tables, tables
from cohsim.protocols.language import NEVER, Controller


def small() -> Controller:
    return Controller("toy", {"A": "N", "B": "RW"}, ("go", "stay"), ("act", "more")).add("""
    A  go    act more -> B     # a comment
    B  stay  stall
    """)


@pytest.mark.parametrize(("text", "override", "message"), [
    ("C go act", False, "unknown state 'C'"),
    ("A jump act", False, "unknown event 'jump'"),
    ("A stay dance", False, "unknown action 'dance'"),
    ("A stay act -> C", False, "unknown next state 'C'"),
    ("A stay", False, "at least one action"),
    ("A", False, "a row needs states, events and actions"),
    ("A stay stall act", False, "stall must stand alone"),
    ("A stay stall -> B", False, "stall must stand alone"),
    ("A go act", False, "already defined"),
    ("A stay act", True, "overrides nothing"),
])
def test_a_malformed_row_names_table_and_line(text: str, override: bool, message: str) -> None:
    with pytest.raises(ProtocolTableError, match=rf"^toy line 2: .*{message}"):
        small().add("\n" + text, override)


def test_removing_what_is_not_there_is_an_error() -> None:
    with pytest.raises(ProtocolTableError, match="nothing to remove for 'A stay'"):
        small().remove("A stay")
    reduced = small().remove("B")
    assert set(reduced.states) == {"A"} and set(reduced.rows) == {("A", "go")}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_flat_arrays_say_what_the_rows_say(name: str) -> None:
    """Every cell: absent rows are NEVER, stalls have the stall bit alone, others next state and action bits."""
    for controller, flat in zip(tables(name), flat_tables(name), strict=True):
        for s, state in enumerate(flat.states):
            for e, event in enumerate(flat.events):
                k = s * len(flat.events) + e
                row = controller.rows.get((state, event))
                if row is None:
                    assert flat.next[k] == NEVER and flat.ops[k] == 0
                    continue
                assert flat.states[flat.next[k]] == row.next
                words = {a for i, a in enumerate(controller.actions) if int(flat.ops[k]) >> i & 1}
                assert words == set(row.actions) - {"stall"}
                assert bool(int(flat.ops[k]) >> 31) == (row.actions == ("stall",))
        assert [("N", "R", "RW")[p] for p in flat.perm] == [controller.states.get(s, "N").replace("-", "N") for s in flat.states]
