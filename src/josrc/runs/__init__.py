"""Runs: from what a user asks for to a finished run, and what can be done with it then."""
