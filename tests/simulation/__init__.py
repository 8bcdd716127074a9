"""Deterministic simulation of the state engine, whole runs and Iceberg commits: `python -m tests.simulation`.

scheduler   virtual time, processes, coroutines driven by `send`; everything random comes from one seed
store       an object store whose every operation may fail, vanish, come late, or kill its caller
network     forwarding between processes, with loss, delay, duplicates
claims      a small decided domain that stands for attempts
node        one process with the workspace open; `clients` are those who ask and read, `world` lets chance rule:
            processes, clients, readers, compactors, collectors and chaos on one workspace
observe     what the engine does inside, seen through thin wrappers; `probe` counts faults and recovery paths
checkers    what must hold during and after a run; `linear` decides whether a history of names is linearizable, and
            `oracle` computes from the events what tables must hold
look        the disk without faults, for checkers
stage       a cluster for scripts; `scenarios` are the scripts, for what chance rarely reaches
mutants     known mistakes that must be caught
sweep       a crash at every storage operation of every kind of work
months      a busy workspace for days or a year, on asyncio and a virtual clock, with every request and object counted

Whole runs (`--world runs`) are a random world of their own on the same scheduler, store and network:

runs        processes of the control plane, workers, callers and chaos; then everything must end
graphs      random projects and requests
peers       how processes of a control plane reach each other
workers     those who claim, beat, finish, die, hang and come late; `outside` is a queue that loses and doubles
referee     judges every event as it lands; `runs_checkers` judge tables and answers
runs_mutants   known mistakes of orchestration

Iceberg commits (`--world commits`) are a third one:

commits     servers, clients with and without idempotency keys, readers and chaos on a few tables
commits_history    what was asked and answered, and what the disk says was in force when; `commits_checkers` compare
commits_mutants    known mistakes of the commit protocol; `commits_sweep` crashes at every storage operation of it
"""
