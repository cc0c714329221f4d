"""cohsim.results"""
