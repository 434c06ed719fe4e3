"""Adapters to runtimes; each imports its runtime when it is used."""
