"""Recorded traces (``*.mtc.xz``, format MTC1): every memory access of a real multi-CPU kernel run, as input of the core."""
from cohsim.traces.load import RecordedTrace, load_recorded
from cohsim.traces.mtc import is_recorded
from cohsim.traces.records import RECORD, RecordFlag
from cohsim.traces.workload import compile_recorded

__all__ = ["RECORD", "RecordFlag", "RecordedTrace", "compile_recorded", "is_recorded", "load_recorded"]
