"""The package that commands in the documents name: small stand-ins for what a reader has."""
