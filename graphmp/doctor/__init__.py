"""What is installed on this machine, and what works with it."""
