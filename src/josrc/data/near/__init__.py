"""Near duplicates: pictures saved again, resized, cropped, brightened or mirrored."""
