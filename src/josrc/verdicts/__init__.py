"""From the ledger to a verdict on every sample."""
