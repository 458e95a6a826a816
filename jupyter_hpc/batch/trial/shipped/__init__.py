"""Runs in the Python of a trial; imports nothing of ours."""
