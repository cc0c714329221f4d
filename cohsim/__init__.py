"""cohsim: a cycle-level multicore cache-coherence emulator."""
__version__ = "0.1.0"
