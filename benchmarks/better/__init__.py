"""How good the answers of `bohb.BEST` are: the study behind the preset, its ablations and its rivals."""
