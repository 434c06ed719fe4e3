"""Tables of cases: each module here holds a list ``CASES``; ``tests/test_lowering.py`` runs them all."""
