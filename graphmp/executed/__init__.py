"""Claims by running an original and its conversion, beside those of the proof.

`scales` asks the proof where loss scales are divided out, `variables` runs a graph as it is written, in the `order` that it leaves open. `same` holds
steps of graphs in float32 against the original's, bit by bit; `widened` makes a converted graph such a one; `ranges` says where values that overflow
or are subnormal explain a difference. `infinities` puts infinities into gradients, `skips` looks at what is written all the same, by the
rules of `allowed`. `check` makes claims of all that, `apart` does so in a process of its own.
"""
