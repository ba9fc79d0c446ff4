"""What the page of a diff is made from: columns of numbers and one table of texts, small enough for graphs of 50,000 nodes."""

from graphmp.compare.render.page_data.columns import page_data

__all__ = ["page_data"]
