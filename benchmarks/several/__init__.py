"""Several objectives and constraints with budgets: this package beside random search and rivals."""
