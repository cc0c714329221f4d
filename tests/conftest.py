"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import cohsim

CHECKOUT = Path(__file__).resolve().parent.parent


def pytest_report_header() -> str:
    """Say which cohsim is under test: an installed one, or the checkout with its extension built in place."""
    core = importlib.util.find_spec("cohsim._core")
    built = Path(core.origin).name if core is not None and core.origin else "NOT BUILT: pip install -e '.[test]'"
    return f"cohsim {cohsim.__version__} from {Path(cohsim.__file__).parent}, core {built}"


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Root of the source tree."""
    return CHECKOUT
