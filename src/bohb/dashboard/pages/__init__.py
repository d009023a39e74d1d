"""The pages: each is a pure function of what it shows."""
