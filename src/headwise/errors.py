"""The errors a user's mistake leads to: one sentence each, no traceback on the command line."""


class HeadwiseError(ValueError):
    """Something the user gave does not fit; the message says what and how to mend it."""


class UnknownFamilyError(HeadwiseError):
    """The model's family has no row in `headwise.architectures`."""


class MaskMismatchError(HeadwiseError):
    """A mask belongs to a model of another shape or with other weights."""


class MissingPackageError(HeadwiseError):
    """A package of one of headwise's extras is not installed."""


class CheckpointError(HeadwiseError):
    """A folder is not a checkpoint that headwise can read."""


def require_whole(name: str, number: object, least: int = 1) -> None:
    """Make sure that a setting is a whole number, and not too small.

    Example:
        >>> require_whole("rounds", True)
        Traceback (most recent call last):
        headwise.errors.HeadwiseError: rounds: a whole number of at least 1, not True
    """
    if type(number) is not int or number < least:
        raise HeadwiseError(f"{name}: a whole number of at least {least}, not {number!r}")
