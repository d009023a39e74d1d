"""How good the answers of the preset `best` are: the study behind the preset, its ablations and its rivals."""
