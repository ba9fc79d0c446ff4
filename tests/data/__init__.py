"""Recorded graphs of our own making, and the script that makes them."""
