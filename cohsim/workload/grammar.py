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
   | "include" STRING                                                  -> include
   | "nic" NAME                                                        -> nic
   | replace "function" NAME ["as" NAME] ["(" [parameter ("," parameter)*] ")"]    -> function
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
    | "else" "if" condition [hint]                                     -> orelse_if
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
    | FOREVER                                                          -> forever
    | BREAK                                                            -> break_
    | CONTINUE                                                         -> continue_
    | WAIT                                                             -> wait
    | IRQ_OFF                                                          -> irq_off
    | IRQ_ON                                                           -> irq_on
    | DROPPED                                                          -> drop
    | _COUNT NAME                                                      -> count
    | _PREFETCH expr                                                   -> prefetch
    | _MMIO dotted "," expr "," expr                                   -> mmio
    | _IPI NAME "," expr                                               -> ipi
    | "assume" STRING                                                  -> assume

!dependent: "dep"
!low: "low"
!calling: "call" | "inline"
!hint: "likely" | "unlikely"
traffic: amount+ "in" expr
amount: amount_name int
!amount_name: "loads" | "stores"

condition: expr RELATION expr                                          -> compare
    | expr UNSIGNED expr                                               -> compare
    | expr                                                             -> bits
    | "not" expr                                                       -> no_bits
UNSIGNED.2: /(<=?|>=?)u(?![A-Za-z0-9_])/
RELATION: "==" | "!=" | "<=" | ">=" | "<" | ">"

test: "isa" NAME                                                       -> test_isa
    | "kernel" RELATION VERSION                                        -> test_kernel
    | "cpus" RELATION INT                                              -> test_cpus
    | NAME                                                             -> test_variant

expr: atom (OPERATOR atom)* [":" int]
OPERATOR: "*" | "+" | "-" | "&" | "|" | "^" | "<<" | ">>"
atom: int_literal                                                      -> number
    | _MINUS int_literal                                                -> negative
    | dotted                                                           -> ref
    | "[" expr "]"                                                     -> deref
    | NAME _ARROW dotted                                               -> arrow
    | "addr" dotted                                                    -> addr
    | "addr" NAME "[" NAME "]"                                         -> addr_index
    | "addr" NAME "[" NAME "*" scale "]"                               -> addr_scaled
    | "addr" NAME _ARROW dotted                                        -> addr_arrow
    | "sizeof" NAME                                                    -> sizeof
scale: int                                                             -> scale
    | "sizeof" NAME                                                    -> scale_size

runline: "source" QUANTITY source_option*                              -> source
    | "on" "packet" NAME                                               -> on_packet
    | "loop" NAME                                                      -> loop
    | "cpu" cpus "runs" NAME [once]                                    -> runs
    | "cpu" cpus "idle"                                                -> idle
    | "cpus" cpus                                                       -> cpu_count
    | "traffic" QUANTITY source_option* "into" NAME                    -> traffic_line
    | "acks" NAME "every" int ["moderation" QUANTITY] "delay" QUANTITY "frame" QUANTITY        -> acks
    | "timer" QUANTITY "runs" NAME                                     -> timer
    | "interrupt" NAME "runs" NAME                                     -> interrupt
    | "output" NAME+                                                   -> output
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

nicline: "port" QUANTITY ["overhead" QUANTITY]                         -> nic_port
    | "queues" int                                                     -> nic_queues
    | "queues" "cpus"                                                  -> nic_queues_cpus
    | direction "ring" NAME "entries" int ring_option*                 -> nic_ring
    | "flow" int                                                       -> nic_flow
    | "fifo" int                                                       -> nic_fifo
    | FLOW_CONTROL flow_control                                        -> nic_flow_control
    | "full" full                                                      -> nic_full
    | direction "service" QUANTITY                                     -> nic_service
    | "writeback" int ["timeout" QUANTITY]                             -> nic_writeback
    | "moderation" direction QUANTITY                                  -> nic_moderation
    | "irq" direction "runs" NAME "on" irq_place                       -> nic_irq
    | "when" test                                                      -> when
    | "unless" test                                                    -> unless
    | "else"                                                           -> orelse
!direction: "rx" | "tx"
ring_option: ring_field int
!ring_field: "descriptor" | "address" | "command" | "done" | "info"
!flow_control: "pause" | "none"
!full: "block" | "drop"
irq_place: "queue" ["+" int]                                           -> on_queue
    | "cpu" int                                                        -> on_cpu

int: INT -> int_number | _MINUS INT -> int_negative | NAME -> int_name
int_literal: INT
dotted: NAME | DOTTED
anyname: /[A-Za-z_][A-Za-z0-9_.\[\]]*/

_ARROW.3: "->"
_MINUS.2: /-(?= *[0-9])/
FLOW_CONTROL.2: "flow-control"
FOREVER.2: /forever(?= *$)/
BREAK.2: /break(?= *$)/
CONTINUE.2: /continue(?= *$)/
WAIT.2: /wait(?= *$)/
IRQ_OFF.2: /irq_off(?= *$)/
IRQ_ON.2: /irq_on(?= *$)/
DROPPED.2: /drop(?= *$)/
_COUNT.2: /count(?= +[A-Za-z_])/
_PREFETCH.2: /prefetch(?= +[A-Za-z_\[])/
_MMIO.2: /mmio(?= +[A-Za-z_])/
_IPI.2: /ipi(?= +[A-Za-z_])/
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

STARTS = ["top", "field", "statement", "runline", "nicline"]

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
    "UNSIGNED": "<u <=u >u >=u",
    "FLOW_CONTROL": "flow-control",
    "DROPPED": "drop",
    "_COUNT": "count",
    "_PREFETCH": "prefetch",
    "_MMIO": "mmio",
    "_IPI": "ipi",
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
    "_MINUS": "'-'",
    "PLUS": "'+'",
}


@cache
def line_parser() -> Lark:
    """The LALR parser of single lines; its start rules are :data:`STARTS`."""
    return Lark(GRAMMAR, parser="lalr", start=STARTS, maybe_placeholders=True, propagate_positions=True)
