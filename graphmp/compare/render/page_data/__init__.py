"""The data of a diff's page: columns of numbers and one table of texts."""

from graphmp.compare.render.page_data.columns import page_data

__all__ = ["page_data"]
