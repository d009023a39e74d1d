"""Adapters to other libraries; each module needs the extra of the same name and is imported by its own name."""
