"""What would help: candidates that follow from the verdicts on shared lines, each simulated and ranked.

>>> advice = advise(Point("t4240", "ipv6_fwd", cpus=24), seeds=3)
>>> advice.rounds[0].trials[0].candidate.title, advice.rounds[0].trials[0].gain
"""

from cohsim.advise.candidates import Candidate, Kind, candidates
from cohsim.advise.search import Advice, Round, Trial, advise

__all__ = ["Advice", "Candidate", "Kind", "Round", "Trial", "advise", "candidates"]
