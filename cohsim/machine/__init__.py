"""Machine files: load, validate, compile.

>>> machine = compile_machine(load_machine("t4240", ["caches.l2.hit=14cycles"]))
"""

from cohsim.machine.compile import compile_machine
from cohsim.machine.compiled import CompiledMachine
from cohsim.machine.load import load_machine
from cohsim.machine.spec import MachineSpec, Source, Value

__all__ = ["CompiledMachine", "MachineSpec", "Source", "Value", "compile_machine", "load_machine"]
