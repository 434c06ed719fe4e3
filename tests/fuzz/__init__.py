"""Random small programs, exported and held against JAX; ``python -m tests.fuzz`` runs them by the hour."""
