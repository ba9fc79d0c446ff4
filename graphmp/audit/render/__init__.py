"""An audit as text and as a page."""
