"""The summary of a review of two graphs: counted in the graphs, with the reasons of a report."""
