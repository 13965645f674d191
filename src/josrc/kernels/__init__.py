"""Triton kernels for what the profile says libraries leave on the table; plain twins elsewhere."""
