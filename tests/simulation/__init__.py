"""Deterministic simulation of the state engine: `python -m tests.simulation --seeds 1000`.

scheduler   virtual time, processes, coroutines driven by `send`; everything random comes from one seed
store       an object store whose every operation may fail, vanish, come late, or kill its caller
network     forwarding between processes, with loss, delay, duplicates
claims      a small decided domain that stands for attempts
world       processes, clients, readers, compactors, collectors and chaos on one workspace
probe       what is counted: faults, recovery paths, answers of sequences
checkers    what must hold during and after a run; `linear` decides whether a history of names is linearizable
scenarios   scripted worlds for what chance rarely reaches
mutants     known mistakes that must be caught
sweep       a crash at every storage operation of every kind of work
"""
