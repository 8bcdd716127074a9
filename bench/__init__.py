"""Measurements of the engine as ratios within one run: `python -m bench`, or `make bench`."""
