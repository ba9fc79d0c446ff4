"""What a user can ask of a graph before or after its conversion: an overview, why a node has its dtype, bytes moved, shape advice."""
