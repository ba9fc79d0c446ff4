"""Sessions: `live` converts the graph of a running one, `steps` trains graphs in sessions of their own."""
