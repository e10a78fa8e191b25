"""The paper's model in torch: configuration, layers, search, checkpoints, and other formats."""
