"""How a batch that was decoded on the host gets to a GPU without making it wait."""

from __future__ import annotations

import torch
from torch import Tensor


class Staging:
    """Carries batches to a GPU while it works on those before.

    A batch crosses to the device on a stream of its own, into one of a few buffers in turn. Only
    the way from there to where the step reads it, inside the device's memory, stands between two
    steps.
    """

    # Batches that the host is ahead of the device. It decodes faster than most networks train: not
    # held back it would queue a thousand steps, their pixels in pinned memory.
    AHEAD = 2

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        """Set up for batches of one shape, or of fewer images."""
        self.device = device
        self.stream = torch.cuda.Stream(device)
        # The host sleeps until a buffer is free; the cores belong to the workers.
        self.buffers = [
            (
                torch.empty(shape, dtype=torch.uint8, device=device),
                torch.cuda.Event(blocking=True),
            )
            for _ in range(self.AHEAD)
        ]
        # What had this memory before may still be at work on the stream it was freed on.
        self.stream.wait_stream(torch.cuda.current_stream(device))
        self.turn = 0

    def send(self, tiles: Tensor, target: Tensor) -> None:
        """Bring tiles from pinned memory to ``target``, in the order of the current stream."""
        buffer, free = self.buffers[self.turn]
        self.turn = (self.turn + 1) % self.AHEAD
        free.synchronize()
        current = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.stream):
            buffer[: len(tiles)].copy_(tiles, non_blocking=True)
        current.wait_stream(self.stream)
        target.copy_(buffer[: len(tiles)])
        free.record(current)
