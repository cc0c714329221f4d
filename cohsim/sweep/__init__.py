"""cohsim.sweep"""
