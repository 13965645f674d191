"""The report of a run's verdicts: one HTML file."""
