"""Steps that are not finite: noticed, traced to where they began, and said."""
