"""Whether a network trained: the one rule, for a confirmation and for the calibration of the verdict."""


def trained(final_loss: float, reference_loss: float, guessing_loss: float) -> bool:
    r"""Whether at least half of what a shallow reference learns was learnt.

    $$ \text{final} \le \text{guessing} - \tfrac12 (\text{guessing} - \text{reference}) $$

    `guessing_loss` is that of the best constant prediction, `reference_loss` what a shallow network reaches with the
    same steps. A loss that is not finite never trained. A reference that learns nothing decides nothing: refused.
    """
    if not reference_loss < guessing_loss:
        raise ValueError(
            f"the reference ends at {reference_loss:.4g}, no better than guessing, {guessing_loss:.4g}: "
            "nothing can be decided by it"
        )
    return final_loss <= guessing_loss - (guessing_loss - reference_loss) / 2
