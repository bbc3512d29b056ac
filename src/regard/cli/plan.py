"""`regard plan`: what a training would cost. Trains nothing.

What it does not know: how the plan is made (`regard.training.plan`).
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.cli.console import print_json, size, table
from regard.cli.reporter import planned_speed, planned_time
from regard.cli.train import Job, make_plan


@dataclass(frozen=True, kw_only=True)
class Arguments(Job):
    """Say what `regard train` with the same words would do and cost: size, memory, tokens, time. Trains nothing."""


def run(args: Arguments) -> None:
    """Make the plan and show it."""
    device = args.apply()
    from regard.training.plan import RESIDENT

    plan = make_plan(args, device)
    if args.json:
        print_json({name: value for name, value in vars(plan).items() if name not in ("sentences", "corpus")})
        return
    rows = [
        ("parameters", f"{plan.parameters:,}"),
        ("memory", f"{size(plan.memory_bytes)}, of which {size(RESIDENT)} are Python and torch themselves"),
        (plan.tokens_kind, f"about {float(f'{plan.tokens_per_epoch:.2g}'):,.0f} in one pass"),
        ("arithmetic", f"{plan.flops_per_token / 1e6:,.1f} MFLOP a {plan.tokens_kind.removesuffix('s')}"),
        ("speed", planned_speed(plan)),
        *([] if plan.optimal_parameters is None else [("best size", f"{plan.optimal_parameters:,} parameters")]),
        ("updates", f"{plan.steps:,} of {plan.recipe.batch.tokens:,} tokens"),
        ("time", planned_time(plan)),
    ]
    table(["plan", ""], rows)
    print("\n" + "\n".join(plan.sentences))
