"""Training: data, loss, optimiser, the loop, and what a run leaves behind (§5)."""
