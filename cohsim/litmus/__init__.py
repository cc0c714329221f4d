"""Litmus tests: herd's ``.litmus`` text, what the architecture allows, and what a modelled machine does.

test.py       a test: instructions, initial state, final condition
parse.py      text to test; grammar.py and instructions of each ISA in x86.py, power.py
operational.py  sequential consistency and x86-TSO, by exhaustive search
axiomatic.py  x86-TSO and Power, by enumeration of candidate executions
rounds.py     a test as a micro-op program of many rounds with random timing
run.py        many simulations of one test, outcomes and verdict
show.py       table, JSON and docs/litmus.md
"""
