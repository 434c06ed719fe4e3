"""Write models to disk: streamed, atomic, hashed."""
