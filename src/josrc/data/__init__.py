"""Where images and labels come from, and how a training step gets to see them."""
