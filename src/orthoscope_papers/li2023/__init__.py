"""Li & Papyan (2023), Residual Alignment: Uncovering the Mechanisms of Residual Networks."""
