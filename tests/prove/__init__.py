"""The long proofs: `python -m tests.prove [--quick]`, or `make prove`."""
