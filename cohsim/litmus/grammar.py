"""Grammar of the parts of a ``.litmus`` file. The frame (header, ``{}``, table, condition) is cut in :mod:`cohsim.litmus.parse`.

Each part is parsed with everything before it blanked out, so that line and column are those of the file.
"""

from __future__ import annotations

from functools import cache

from lark import Lark

GRAMMAR = r"""
init: entry? (";" entry?)*
entry: TYPE? cell "=" value                                  -> assigned
     | TYPE? cell                                            -> declared
?value: INT -> number | "&"? NAME -> address

locations: "[" shown (";" shown)* ";"? "]"
shown: TYPE? cell TYPE?

condition: QUANTIFIER proposition
?proposition: conjunction ("\\/" conjunction)*               -> disjunction
?conjunction: negation ("/\\" negation)*                     -> conjunction
?negation: ("~" | "not") negation                            -> negation
         | "(" proposition ")"
         | cell "=" INT                                      -> equals
         | "true"                                            -> true

cell: INT ":" "%"? NAME                                      -> register
    | NAME                                                   -> memory
    | "[" NAME "]"                                           -> memory

line: label* instruction?
label: NAME ":"
instruction: LOCK? NAME (operand ("," operand)*)?
operand: "$"? INT                                            -> immediate
       | "%" NAME                                            -> percent
       | NAME                                                -> name
       | "[" "%"? NAME "]"                                   -> bracket
       | "(" "%"? NAME ")"                                   -> bracket
       | INT "(" "%"? NAME ")"                               -> displaced

QUANTIFIER: "exists" | /~\s*exists/ | "forall"
TYPE.2: /(int|long|u?int(8|16|32|64)_t)\b\*?/
LOCK.3: /lock\b/i
INT: /-?(0x[0-9a-fA-F]+|[0-9]+)/
NAME: /[A-Za-z_][A-Za-z0-9_.]*/
WS: /[ \t\r\n]+/
%ignore WS
"""

STARTS = ("init", "locations", "condition", "line")


@cache
def parser(start: str) -> Lark:
    """The parser of one kind of part."""
    return Lark(GRAMMAR, start=start, parser="lalr", maybe_placeholders=False)
