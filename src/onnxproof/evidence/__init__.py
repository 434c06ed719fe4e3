"""What a runtime computes from a file, held against what the model computes."""
