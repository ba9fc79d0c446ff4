"""Editing and building graphs."""
