"""plotly, if it is installed: the only module that imports it."""

from __future__ import annotations

from typing import TypeAlias

from bohb.errors import MissingExtra, install_hint

try:
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs
except ImportError as error:
    raise MissingExtra(f"plots and reports need plotly: {install_hint('plot')}") from error

Figure: TypeAlias = go.Figure
__all__ = ["Figure", "get_plotlyjs", "go"]
