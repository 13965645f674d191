"""Predictions and features of a user's own."""

from __future__ import annotations
