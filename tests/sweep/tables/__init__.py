"""One table for each module of JAX: rows of names and calls, and what is no computation."""
