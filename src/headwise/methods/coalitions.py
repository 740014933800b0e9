"""Values of coalitions on several examples."""

import numpy as np
from numpy.typing import NDArray

from headwise.engine import Engine, EngineCost
from headwise.games import Game

Array = NDArray[np.float64]


def value_coalitions(
    engine: Engine, game: Game, masks: NDArray[np.bool_], index: NDArray[np.int64]
) -> tuple[Array, EngineCost]:
    """The value of each coalition on its own examples, (coalitions,), and the cost.

    Args:
        engine: An engine for the game.
        game: The game, which computes a value from the statistics of examples.
        masks: The coalitions, (coalitions, players).
        index: The examples of each coalition, (coalitions, examples).
    """
    found = engine.values(np.repeat(masks, index.shape[1], axis=0), index.ravel())
    statistics = found.values.double().numpy().reshape(*index.shape, game.statistics)
    return np.array([game.corpus(each) for each in statistics]), found.cost
