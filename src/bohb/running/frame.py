"""The trials of a study as a data frame."""

from __future__ import annotations

import importlib
from typing import Any

from bohb.core.columns import FLOATS, one_type, table
from bohb.core.history import History
from bohb.errors import MissingExtra


def trials_frame(history: History) -> Any:
    """Return one row per trial as a pandas.DataFrame, or a polars.DataFrame if pandas is not installed."""
    columns = table(history, history.trials)
    pandas = _installed("pandas")
    if pandas is not None:
        return pandas.DataFrame(columns).astype(dict.fromkeys(FLOATS, float))
    polars = _installed("polars")
    if polars is not None:
        typed = {name: one_type(values) for name, values in columns.items()}
        return polars.DataFrame(typed, schema_overrides=dict.fromkeys(FLOATS, polars.Float64))
    raise MissingExtra("to_dataframe needs the package 'pandas' or 'polars': pip install pandas")


def _installed(package: str) -> Any:
    """Import a package; None if it is not installed."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is installed, and lacks something itself
            raise
        return None
