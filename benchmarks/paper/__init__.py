"""The experiments of the paper, side by side with its rivals, and what each claim came to."""
