"""One Muon on many ranks: who orthogonalises which parameter, and what travels.

`ownership` and `splits` are arithmetic on shapes, from which the planner counts bytes; `replicated` and `sharded`
are the collectives; `exchange` chooses between them.
"""
