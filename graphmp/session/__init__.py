"""Sessions: `live` converts a running session's graph, `steps` trains graphs in new sessions."""
