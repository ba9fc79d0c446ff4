"""Files: reading with limits, JSON by schema, and outputs that replace the old ones whole."""
