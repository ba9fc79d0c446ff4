"""Skipped steps: what the gates keep from being written."""
