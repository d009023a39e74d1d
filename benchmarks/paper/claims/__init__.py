"""The claims of the paper's experiments, decided from the result files."""
