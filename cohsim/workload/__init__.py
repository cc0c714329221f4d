"""The workload language: text to micro-operations (see docs/workload-language.md)."""

from cohsim.workload.load import load_workload

__all__ = ["load_workload"]
