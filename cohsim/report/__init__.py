"""cohsim.report"""
