"""The training loop and what carries it: step, capture, checkpoints, events."""
