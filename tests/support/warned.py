"""The warnings of a conversion."""

import graphmp


def said(meta_graph, code, **options):
    """The report's warnings of a code about a graph."""
    report = graphmp.convert(meta_graph, **options).report
    return [row for row in report["warnings"] if row["code"] == code]
