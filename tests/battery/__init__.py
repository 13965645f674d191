"""The battery: hostile input, kills, full disks and a loaded review, against the real commands.

``make battery`` runs it; see docs/develop/battery.md. It is no part of ``make test``.
"""
