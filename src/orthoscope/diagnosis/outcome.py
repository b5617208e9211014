"""When a network counts as trained: one rule, for a confirmation and for the calibration of the verdict."""


def trained(final: float, reference: float, guessing: float) -> bool:
    r"""Whether it learned at least half of what a shallow reference learned, from guessing on.

    $$ \text{final} \le \text{guessing} - \tfrac12 (\text{guessing} - \text{reference}) $$
    """
    return final <= guessing - (guessing - reference) / 2
