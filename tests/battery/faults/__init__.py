"""What may happen to a machine: kills at any moment, torn files, disks that are full or gone."""
