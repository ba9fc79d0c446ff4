"""Claims made by running an original and its conversion, in addition to those of the proof.

`check` makes all claims, `apart` does so in a process of its own; `again` converts the original
again, `scales` takes the places of unscales from the proof, `variables` runs a graph unoptimised,
in an `order` where the graph has none.

`equal_steps` claims that steps in float32 are the original's: `same` compares them bit by bit,
`widened` turns a converted graph into float32, `ranges` tells whether values that overflow or are
subnormal explain a difference. `skip_claim` claims that steps are skipped whole: `infinities` makes
gradients infinite, `skips` examines what is still written, by the rules of `allowed`. `agreement`
claims that half precision agrees, beside what it does to inputs that are only `rounded`.
"""
