"""The paper's experiments: its numbers, our runs of them, and the comparison."""
