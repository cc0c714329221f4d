"""cohsim.cli"""
