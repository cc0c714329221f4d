"""Many runs: points, backends that run them, the file that keeps them, and what is fitted to them.

>>> sweep = Sweep(Point("t4240", "micro/atomic_inc"), {"cpus": (1, 2, 4, 8), "seed": (1, 2, 3)})
>>> result = load_sweep("sweep.h5")
>>> result.axes                                   # {"cpus": [1, 2, 4, 8], "seed": [1, 2, 3]}
>>> result.points[0]["inputs"], result.points[0]["summary"]
>>> curve = result.curves("cpus")[0]
>>> fit = usl_fit(curve.values, [e.mean for e in curve.estimates])     # fit.lambda_, fit.sigma, fit.kappa, fit.peak, fit.rate(cpus)
"""

from cohsim.sweep.definition import Sweep
from cohsim.sweep.point import Outcome, Point, run_point
from cohsim.sweep.statistics import Estimate, estimate
from cohsim.sweep.store import Curve, SweepResult, load_sweep
from cohsim.sweep.usl import UslFit, usl_fit

__all__ = ["Curve", "Estimate", "Outcome", "Point", "Sweep", "SweepResult", "UslFit", "estimate", "load_sweep", "run_point", "usl_fit"]
