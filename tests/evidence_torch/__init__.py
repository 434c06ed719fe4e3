"""The two profiles of PyTorch; they run where torch is installed: ``make test-torch``."""
