"""Live web pages over a journal: `bohb dashboard study.db`, or `bohb.dashboard.serve("study.db")`."""

from bohb.errors import MissingExtra, install_hint

try:
    from bohb.dashboard.server import serve
    from bohb.dashboard.site import create_app
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("jinja2", "plotly", "starlette", "uvicorn"):
        raise
    raise MissingExtra(f"the dashboard needs the package {error.name!r}: {install_hint('dashboard')}") from error

__all__ = ["create_app", "serve"]
