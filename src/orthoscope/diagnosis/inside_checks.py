"""Measures of what happens inside of attention, recurrent layers and mixtures of experts, one number each."""

import math
from collections.abc import Callable, Sequence

from orthoscope.diagnosis.checks import CheckValue, NotChecked
from orthoscope.diagnosis.projections import larger_projection
from orthoscope.probe import Recording
from orthoscope.probe.attention import AttentionCall
from orthoscope.probe.experts import FEWEST_TOKENS
from orthoscope.probe.recurrence import TimeProfile

NO_ATTENTION = "no attention was seen"
NO_RECURRENCE = "no layer is recurrent"
NO_EXPERTS = "no mixture of experts was seen"
# Reasons for which a check does not apply to a network at all.
ABSENT = frozenset({NO_ATTENTION, NO_RECURRENCE, NO_EXPERTS})


def one_hot_attention(recording: Recording) -> CheckValue:
    """Share of all heads in which one key gets nearly all the weight; begins at what makes its logits large."""
    calls = [call for call in _attentions(recording) if not math.isnan(call.entropy)]
    if not calls:
        raise NotChecked("no query sees two keys")
    share = sum(call.one_hot_heads for call in calls) / len(calls)
    return CheckValue(
        share, lambda limit: larger_projection(recording, calls, [call.one_hot_heads for call in calls], limit)
    )


def largest_logit(recording: Recording) -> CheckValue:
    """Largest logit of all attentions; begins at what makes it large."""
    calls = _attentions(recording)
    sizes = [call.largest_logit for call in calls]
    return CheckValue(max(sizes), lambda limit: larger_projection(recording, calls, sizes, limit))


def lonely_queries(recording: Recording) -> CheckValue:
    """Largest share, over attentions, of queries for which the mask leaves one key or none."""
    calls = _attentions(recording)
    shares = [call.lonely_queries for call in calls]
    return CheckValue(max(shares), lambda limit: calls[shares.index(max(shares))].module)


def wrong_axis(recording: Recording) -> CheckValue:
    """Number of attentions whose softmax is not over the keys."""
    calls = [call for call in _attentions(recording) if call.normalizes_keys is not None]
    if not calls:
        raise NotChecked("where the weights of attention are used was not seen")
    wrong = [call for call in calls if not call.normalizes_keys]
    return CheckValue(float(len(wrong)), lambda limit: wrong[0].module if wrong else None)


def _attentions(recording: Recording) -> Sequence[AttentionCall]:
    if not recording.attention:
        raise NotChecked(NO_ATTENTION)
    return recording.attention


def time_growth(recording: Recording) -> CheckValue:
    """Largest growth of the log-gradient from the last time step to the first, over recurrent layers."""
    return _over_time(recording, max)


def time_decay(recording: Recording) -> CheckValue:
    """The same where it shrinks most."""
    return _over_time(recording, min)


def _over_time(recording: Recording, choose: Callable[..., TimeProfile]) -> CheckValue:
    """Growth in the recurrent layer that is chosen by it, of those where it is known."""
    profiles = [profile for profile in _profiles(recording) if not math.isnan(profile.growth)]
    if not profiles:
        raise NotChecked("no gradient was observed at any time step")
    worst = choose(profiles, key=lambda profile: profile.growth)
    return CheckValue(worst.growth, lambda limit: worst.module)


def saturated_states(recording: Recording) -> CheckValue:
    """Largest share, over recurrent layers, of gates and states that are saturated."""
    known = [(profile.saturation, profile.module) for profile in _profiles(recording) if profile.saturation is not None]
    if not known:
        raise NotChecked("the gates of no recurrent layer could be computed")
    return CheckValue(max(known)[0], lambda limit: max(known)[1])


def _profiles(recording: Recording) -> Sequence[TimeProfile]:
    if not recording.time:
        raise NotChecked(NO_RECURRENCE)
    return recording.time


def expert_balance(recording: Recording) -> CheckValue:
    """Least balance of a router: 0 if all tokens go to the same experts, 1 if all experts get as many."""
    if not recording.experts:
        raise NotChecked(NO_EXPERTS)
    judged = [load for load in recording.experts if load.experts > load.per_token]
    judged = [load for load in judged if load.tokens * load.per_token >= FEWEST_TOKENS * load.experts]
    if not judged:
        raise NotChecked("too few tokens for the number of experts")
    worst = min(judged, key=lambda load: load.balance)
    return CheckValue(worst.balance, lambda limit: worst.module)
