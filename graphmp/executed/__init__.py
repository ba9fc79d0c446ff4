"""Claims made by running an original and its conversion, in addition to those of the proof.

`scales` takes the places of unscales from the proof, `variables` runs a graph unoptimised, in an
`order` where the graph has none. `same` compares steps of graphs in float32 with the original's,
bit by bit; `widened` turns a converted graph into float32; `ranges` tells whether values that
overflow or are subnormal explain a difference. `infinities` makes gradients infinite, `skips`
examines what is still written, by the rules of `allowed`. `check` turns all this into claims,
`apart` does so in a process of its own.
"""
