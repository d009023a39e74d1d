"""The pages: each a pure function of what is to be shown."""
