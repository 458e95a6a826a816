"""Measurements, each printing what it compares and the ratio; `make bench` runs them all."""
