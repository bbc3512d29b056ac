"""Training: one step, the loop, the optimizers, exact resume, the run folder. It never imports `inspect`."""

from regard.training.loop import DevEvent, EndEvent, Event, LeaveEvent, Loop, StepEvent
from regard.training.optim import Muon, lr_factor, make_optimizers, orthogonalise
from regard.training.outcome import Result
from regard.training.recipe import Recipe
from regard.training.run import Reporter, read_recipe, train
from regard.training.state import Progress
from regard.training.step import TrainStep, add_gradients

__all__ = [
    "DevEvent",
    "EndEvent",
    "Event",
    "LeaveEvent",
    "Loop",
    "Muon",
    "Progress",
    "Recipe",
    "Reporter",
    "Result",
    "StepEvent",
    "TrainStep",
    "add_gradients",
    "lr_factor",
    "make_optimizers",
    "orthogonalise",
    "read_recipe",
    "train",
]
