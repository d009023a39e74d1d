"""plotly, if it is installed: the only module that imports it."""

from __future__ import annotations

from typing import TypeAlias

from bohb.errors import MissingExtra

try:
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs
except ImportError as error:
    raise MissingExtra('plots and reports need plotly; install it with: pip install "bohb[plot]"') from error

Figure: TypeAlias = go.Figure
__all__ = ["Figure", "get_plotlyjs", "go"]
