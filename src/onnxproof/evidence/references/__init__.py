"""What a model computes by itself; each reference imports its framework when it is used."""
