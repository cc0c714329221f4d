"""Grammar of one line. Blocks are indentation and are put together in :mod:`cohsim.workload.parse`.

One line at a time, so that one wrong line does not hide the next: all wrong lines are reported together.
"""

from __future__ import annotations

from functools import cache

from lark import Lark

GRAMMAR = r"""
top: "kernel" VERSION                                                  -> kernel
   | "title" STRING                                                    -> title
   | "assume" STRING                                                   -> assume
   | "param" NAME int                                                  -> param
   | "struct" NAME "size" int                                          -> struct
   | "object" NAME shape SCOPE option* ["init" init+]                  -> object
   | replace "function" NAME ["(" [parameter ("," parameter)*] ")"]    -> function
   | replace "path" NAME                                               -> path
   | "variant" NAME [STRING]                                           -> variant
   | "choice" NAME NAME+                                               -> choice
   | "layout" LAYOUT                                                   -> layout
   | "when" test                                                       -> when
   | "unless" test                                                     -> unless
   | "else"                                                            -> orelse
   | "run"                                                             -> run

!replace: ["replace"]
parameter: NAME ["initially" int]
shape: "bytes" int -> bytes | NAME -> structured
option: option_name int                                                     -> option
      | "at" NAME ["+" int]                                            -> beside
!option_name: "offset" | "align" | "stride" | "pool" | "chain"
init: dotted "=" int                                                   -> init_int
    | dotted "=" int "+" "cpu"                                         -> init_cpu
    | dotted "=" "cpu"                                                 -> init_cpu0
    | dotted "=" "addr" dotted                                         -> init_addr

field: anyname int int [overlaps]
!overlaps: "overlaps"

statement: "work" int traffic*                                         -> work
    | "load" expr ["x" int] [dependent]                                      -> load
    | NAME "=" "load" expr ["x" int] [dependent]                             -> load_to
    | "store" expr ["=" expr] ["x" int]                                -> store
    | "rmw" NAME expr ("," expr)+                                      -> rmw
    | NAME "=" "rmw" NAME expr ("," expr)+                             -> rmw_to
    | NAME "=" "ll" expr                                               -> ll
    | NAME "=" "sc" expr "=" expr                                      -> sc
    | NAME "=" expr                                                    -> assign
    | NAME "=" NAME expr ("," expr)*                                   -> invoke_to
    | NAME [expr ("," expr)*]                                          -> invoke
    | calling NAME ["(" [expr ("," expr)*] ")"]                           -> call
    | NAME "=" calling NAME ["(" [expr ("," expr)*] ")"]                  -> call_to
    | "fence" NAME                                                     -> fence
    | "pause" [low]                                                    -> pause
    | "if" condition [hint]                                            -> if_block
    | "if" condition "goto" NAME [hint]                                -> if_goto
    | "else"                                                           -> orelse
    | "while" condition                                                -> while_block
    | "spin" "while" condition                                         -> spin_block
    | "repeat" int                                                     -> repeat
    | "unroll" int                                                     -> unroll
    | "label" NAME                                                     -> label
    | "goto" NAME                                                      -> goto
    | "return" [expr]                                                  -> return_
    | "when" test                                                      -> when
    | "unless" test                                                    -> unless
    | "halt"                                                           -> halt
    | "assume" STRING                                                  -> assume

!dependent: "dep"
!low: "low"
!calling: "call" | "inline"
!hint: "likely" | "unlikely"
traffic: amount+ "in" expr
amount: amount_name int
!amount_name: "loads" | "stores"

condition: expr RELATION expr                                          -> compare
    | expr                                                             -> bits
    | "not" expr                                                       -> no_bits
RELATION: "==" | "!=" | "<=" | ">=" | "<" | ">"

test: "isa" NAME                                                       -> test_isa
    | "kernel" RELATION VERSION                                        -> test_kernel
    | "cpus" RELATION INT                                              -> test_cpus
    | NAME                                                             -> test_variant

expr: atom (OPERATOR atom)* [":" int]
OPERATOR: "+" | "-" | "&" | "|" | "^" | "<<" | ">>"
atom: int_literal                                                      -> number
    | "-" int_literal                                                  -> negative
    | dotted                                                           -> ref
    | "[" expr "]"                                                     -> deref
    | NAME _ARROW dotted                                               -> arrow
    | "addr" dotted                                                    -> addr
    | "addr" NAME "[" NAME "]"                                         -> addr_index

runline: "source" QUANTITY source_option*                              -> source
    | "on" "packet" NAME                                               -> on_packet
    | "loop" NAME                                                      -> loop
    | "cpu" cpus "runs" NAME [once]                                    -> runs
    | "cpu" cpus "idle"                                                -> idle
    | "cpus" cpus                                                       -> cpu_count
   | "warmup" QUANTITY ["measure" QUANTITY]                           -> times
    | "measure" QUANTITY                                               -> measure
    | "when" test                                                      -> when
    | "unless" test                                                    -> unless
    | "else"                                                           -> orelse
!once: "once"
cpus: INT                                                              -> cpu_one
    | INT ".." [INT]                                                   -> cpu_range
source_option: sized_name QUANTITY                                          -> sized
    | counted_name int                                                      -> counted
    | "link" QUANTITY                                                  -> link
    | "arrivals" NAME                                                  -> arrivals
    | "spread" "even"                                                  -> even
    | "spread" "single"                                                -> single
    | "spread" "rss" ["queues" int]                                    -> rss
    | "spread" "weights" INT+                                          -> weights
!sized_name: "frame" | "overhead"
!counted_name: "ring" | "flows" | "pool"

int: INT -> int_number | "-" INT -> int_negative | NAME -> int_name
int_literal: INT
dotted: NAME | DOTTED
anyname: /[A-Za-z_][A-Za-z0-9_.\[\]]*/

_ARROW.3: "->"
SCOPE.2: /(shared|per-cpu|per-packet|per-flow|per-queue|per-iteration)\b/
NAME: /[A-Za-z_][A-Za-z0-9_]*/
DOTTED: /[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_\[\]]+)+/
INT: /0[xX][0-9a-fA-F]+|[0-9]+(KiB|MiB|GiB)?(?![A-Za-z0-9_])/
VERSION: /[0-9]+(\.[0-9]+)*/
QUANTITY: /[0-9]+(\.[0-9]+)?[A-Za-z]+(\/s)?/
LAYOUT: /'[^']*'|[^\s']+/
STRING: /"[^"]*"/
%ignore /[ ]+/
"""

STARTS = ["top", "field", "statement", "runline"]

DESCRIPTIONS = {
    "NAME": "a name",
    "DOTTED": "OBJECT.FIELD",
    "INT": "an integer",
    "VERSION": "a version such as 3.12",
    "QUANTITY": "a number with its unit, such as 10Gbit/s, 78B or 50us",
    "STRING": 'text in "quotes"',
    "$END": "the end of the line",
    "LAYOUT": "a layout option such as STRUCT.FIELD@192",
    "SCOPE": "shared, per-cpu, per-packet, per-flow, per-queue or per-iteration",
    "RELATION": "== != < <= > >=",
    "OPERATOR": "an operator",
    "OPTION": "offset, align, stride, pool, chain",
    "HINT": "likely or unlikely",
    "AMOUNT": "loads or stores",
    "SIZED": "frame or overhead",
    "COUNTED": "ring, flows or pool",
    "CALL": "call or inline",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "EQUAL": "'='",
    "COLON": "':SIZE'",
    "LSQB": "'['",
    "RSQB": "']'",
    "MINUS": "'-'",
    "PLUS": "'+'",
}


@cache
def line_parser() -> Lark:
    """The LALR parser of single lines; its start rules are :data:`STARTS`."""
    return Lark(GRAMMAR, parser="lalr", start=STARTS, maybe_placeholders=True, propagate_positions=True)
