"""The review as a real server: hostile requests, load, kills, and how quickly it answers."""
