"""The proof page in a real browser. ``make test-web`` runs this; a browser that is missing fails it."""
