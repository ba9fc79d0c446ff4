"""What a reviewer wants to know first of two graphs: counted in the graphs, with the reasons of a report."""
