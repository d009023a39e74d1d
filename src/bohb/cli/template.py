"""The study file that `bohb init` writes."""

TEMPLATE = '''\
# A study for bohb. Try it:    bohb plan study.toml
#                              bohb check study.toml
#                              bohb run study.toml      (the same command resumes it)
# All keys: docs/study-file.md

study = "my-study"                 # the name of the study in the journal
journal = "study.db"               # a file beside this one, or postgresql+psycopg://user@host/name
workers = 2                        # trials at once, each in its own process; 0: in bohb's process
seed = 1                           # random seed; leave it out for a random one
preset = "best"                    # "best": strongest in our measurements (the default); "paper": BOHB as published;
                                   # "hpbandster": like the authors' code, to compare with it

# What is minimised. Either any command: it prints a number, or {"loss": number, …}, as its last line …
command = """
  python train.py --lr {lr} --units {units} --layers {layers} --activation {activation} --dropout {dropout}
                  --epochs {budget} --state {checkpoint_dir} --seed {seed}
"""
# … or a Python function of one argument, the trial, in a module beside this file:
# objective = "train:objective"

# forbidden = ["activation == tanh and lr > 0.05"]

[budget]
min = 1                            # the smallest and the largest budget of an evaluation
max = 27
eta = 3                            # a rung keeps the best 1/eta
integer = true                     # whole numbers only
# adaptive = true                  # detect misleading budgets, and try smaller ones
unit = "epochs"                    # for display

[space]
lr = {float = [1e-5, 1e-1], log = true}
units = {int = [16, 512], log = true}
layers = {int = [1, 4]}
activation = ["relu", "tanh"]
dropout = {float = [0.0, 0.5], if = "layers > 1"}

[limits]                           # the study ends at the first of these; without any, after one round of brackets
max_seconds = "8h"
# max_trials = 500
# max_brackets = 8
# max_cost = 50                    # in evaluations on the largest budget
# target_loss = 0.01

[trial]                            # limits of a single evaluation
# seconds = "30m"
# memory = "4GB"

[settings]                         # changes to the preset, by name
# random_fraction = 0.3333
'''
