"""Universal Scalability Law (Gunther 1993): rate(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)).

``lambda`` is the rate of one CPU, ``sigma`` the share of work that is serialised (contention), ``kappa`` the cost of keeping each pair of
CPUs consistent (coherence, crosstalk); only kappa makes the rate fall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PARAMETERS = 3
_AT_BOUND = 1e-7  # the solver stops this near to a bound; no machine has parameters so small


@dataclass(frozen=True)
class UslFit:
    """A fitted law. Standard errors come from the residuals; None where there is no degree of freedom left, or the parameter lies on its
    bound (0), where a symmetric error means nothing.
    """

    lambda_: float  # rate of one CPU, in the unit of the rates
    sigma: float  # >= 0
    kappa: float  # >= 0
    lambda_stderr: float | None
    sigma_stderr: float | None
    kappa_stderr: float | None
    r_squared: float  # 1: the law goes through all points
    points: int

    def rate(self, cpus: float | np.ndarray) -> float | np.ndarray:
        """The law at ``cpus``, in the unit of the rates."""
        n = np.asarray(cpus, float)
        result = self.lambda_ * n / (1 + self.sigma * (n - 1) + self.kappa * n * (n - 1))
        return result if result.ndim else float(result)

    @property
    def peak(self) -> float | None:
        """CPU count of the highest rate; None if the law never falls (kappa 0), 1.0 if it falls from the start."""
        if self.kappa <= _AT_BOUND:
            return None
        return max(1.0, math.sqrt(max(0.0, 1 - self.sigma) / self.kappa))

    @property
    def peak_rate(self) -> float | None:
        """Highest rate; None if the law never falls."""
        peak = self.peak
        return None if peak is None else float(self.rate(peak))

    def as_json(self) -> dict[str, float | int | None]:
        """All figures under their names."""
        return {
            "lambda": self.lambda_,
            "lambda_stderr": self.lambda_stderr,
            "sigma": self.sigma,
            "sigma_stderr": self.sigma_stderr,
            "kappa": self.kappa,
            "kappa_stderr": self.kappa_stderr,
            "r_squared": self.r_squared,
            "points": self.points,
            "peak_cpus": self.peak,
            "peak_rate": self.peak_rate,
        }


def usl_fit(cpus: Sequence[float] | np.ndarray, rates: Sequence[float] | np.ndarray) -> UslFit:
    """Least-squares fit of the law with sigma, kappa >= 0. ``rates`` in any unit; several rates at one CPU count are allowed.

    Raises ValueError with fewer than three different CPU counts, CPU counts below 1 or rates that are not positive and finite.
    """
    from scipy.optimize import least_squares

    n, y = np.asarray(cpus, float), np.asarray(rates, float)
    if n.shape != y.shape or n.ndim != 1:
        raise ValueError("one rate for each CPU count is needed")
    if len(set(n.tolist())) < PARAMETERS:
        raise ValueError(f"{PARAMETERS} different CPU counts are needed, not {len(set(n.tolist()))}")
    if not (np.isfinite(y).all() and (y > 0).all() and (n >= 1).all()):
        raise ValueError("CPU counts must be at least 1 and rates positive")
    scale = float(y.max())  # the solver's tolerances are for values near 1

    def residual(p: np.ndarray) -> np.ndarray:
        return p[0] * n / (1 + p[1] * (n - 1) + p[2] * n * (n - 1)) - y / scale

    start = (float((y / n / scale).max()), 0.05, 0.001)
    solved = least_squares(residual, start, bounds=([1e-12, 0, 0], np.inf), x_scale=(start[0], 0.1, 0.01), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    errors = _standard_errors(solved.jac, solved.x, float(2 * solved.cost), len(n))
    spread = float(((y / scale - y.mean() / scale) ** 2).sum())
    lam, sigma, kappa = (float(v) for v in solved.x)
    return UslFit(
        lam * scale,
        sigma if sigma > _AT_BOUND else 0.0,
        kappa if kappa > _AT_BOUND else 0.0,
        None if errors[0] is None else errors[0] * scale,
        errors[1],
        errors[2],
        1 - float(2 * solved.cost) / spread if spread else 1.0,
        len(n),
    )


def _standard_errors(jacobian: np.ndarray, x: np.ndarray, squares: float, points: int) -> list[float | None]:
    """Square roots of the diagonal of s^2 (J'J)^-1 over the parameters that are not on their bound."""
    free = [i for i in range(PARAMETERS) if i == 0 or x[i] > _AT_BOUND]
    freedom = points - len(free)
    errors: list[float | None] = [None] * PARAMETERS
    if freedom <= 0:
        return errors
    covariance = np.linalg.pinv(jacobian[:, free].T @ jacobian[:, free]) * squares / freedom
    for position, parameter in enumerate(free):
        errors[parameter] = math.sqrt(max(0.0, float(covariance[position, position])))
    return errors
