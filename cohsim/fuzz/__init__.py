"""Random tester in the style of gem5's Ruby tester: racing programs whose every loaded value an independent oracle judges.

case.py       what a random test is: machine, areas of memory, one loop per thread
generate.py   a case from a seed
assemble.py   a case as micro-ops that log every loaded value
execute.py    run a case on the core and read its log back
history.py    the logged values as a history: who did what to which word, in program order
oracle.py     what memory may have done; knows nothing of caches, protocols or times
shrink.py     the smallest case that still fails
coverage.py   which rows of the protocol tables fired
campaign.py   many cases, on several processes
"""
