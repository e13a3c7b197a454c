"""Review: plans that wait, piece by piece, with the turns that they rest on beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import BadInputError, UsageError
from familiar_cli.web.asking import Redirect, Shown, WebPage, with_speakers

if TYPE_CHECKING:
    from familiar_cli.review.pending import PieceRef
    from familiar_cli.web.asking import PageRequest

_MOST_PLANS: Final = 100
_MOST_TURNS: Final = 30


def show(asked: PageRequest) -> Shown:
    """Return the plans that wait."""
    from familiar_cli.review.pending import pending_ids, read_pending

    plans, damaged = [], []
    ids = pending_ids(asked.familiar.memory)
    for plan_id in ids[:_MOST_PLANS]:
        try:
            plans.append(read_pending(asked.familiar.memory, plan_id))
        except BadInputError as error:
            damaged.append((plan_id, str(error)))
    return Shown("review", {"plans": plans, "damaged": damaged, "more": len(ids) - _MOST_PLANS})


def one(asked: PageRequest) -> Shown:
    """Return one plan."""
    from familiar_cli.history.selection import kept_turns
    from familiar_cli.review.pending import read_pending

    familiar = asked.familiar
    plan = read_pending(familiar.memory, asked.path["plan"])
    first, last = plan.turns
    wanted = range(first, min(last, first + _MOST_TURNS - 1) + 1) if any(plan.turns) else ()
    kept = kept_turns(familiar.history, wanted)
    turns = with_speakers(familiar, (kept[n].turn for n in sorted(kept)))
    return Shown(
        "plan", {"plan": plan, "turns": turns, "more": max(last - first + 1 - _MOST_TURNS, 0)}
    )


def decide(asked: PageRequest) -> Redirect:
    """Make the pieces that are taken, and throw those away that are rejected."""
    from familiar_cli.review.pending import decide as decide_on
    from familiar_cli.review.pending import drop_damaged, read_pending
    from familiar_cli.text import counted

    familiar, plan_id = asked.familiar, asked.path["plan"]
    memory = familiar.memory
    try:
        plan = read_pending(memory, plan_id)
    except BadInputError:
        if asked.sent("all") != "reject":
            raise
        drop_damaged(memory, plan_id)
        return Redirect(asked.to("review"), ("The damaged plan was discarded.",))
    take: set[PieceRef] = set()
    drop: set[PieceRef] = set()
    for number in range(1, len(plan.hunks) + 1):
        said = asked.sent("all") or asked.sent(f"piece-{number}")
        if said == "take":
            take.add(number)
        elif said == "reject":
            drop.add(number)
    if not take and not drop:
        raise UsageError("No piece was taken or rejected; nothing was changed")
    history, numbering = familiar.history, familiar.numbering
    done = decide_on(memory, plan, apply=take, reject=drop, history=history, numbering=numbering)
    told = [f"Wrote {path}." for path in done.changed]
    told += [f"Withdrew {counted(len(done.withdrawn), 'turn')}."] if done.withdrawn else []
    told += [f"{counted(len(drop), 'piece')} rejected."] if drop else []
    if done.rest:
        told.append(f"{counted(len(done.rest.hunks), 'piece')} of the plan still waits.")
        return Redirect(asked.to("review", plan_id), tuple(told))
    return Redirect(asked.to("review"), (*told, "The plan is complete."))


PAGES: Final[tuple[Any, ...]] = (
    WebPage("/review", show),
    WebPage("/review/{plan}", one),
    WebPage("/review/{plan}", decide, "POST"),
)
