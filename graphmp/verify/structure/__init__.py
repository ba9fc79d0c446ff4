"""The converted graph without what a conversion inserts: equal to the original, edge for edge."""
