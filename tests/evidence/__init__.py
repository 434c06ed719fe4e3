"""Tests of the evidence: records, bundles, stages, runtimes in processes, commands."""
