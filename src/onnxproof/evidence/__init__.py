"""What a file computes, judged from outside: it sees files only, never how they were made."""
