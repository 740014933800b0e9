"""Errors for mistakes of the user: one sentence each, no traceback on the command line."""


class HeadwiseError(ValueError):
    """Something the user gave does not fit; the message says what it is and how to mend it."""


class FieldError(HeadwiseError):
    """The value of one field does not fit; the command line shows the field as its option.

    Args:
        field: Name of the field, such as `budget`.
        reason: What is wrong and how to mend it.

    Example:
        >>> str(FieldError("budget", "must be a finite number"))
        'budget: must be a finite number'
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


class UnknownFamilyError(HeadwiseError):
    """The model's family has no row in `headwise.architectures`."""


class MaskMismatchError(HeadwiseError):
    """A mask belongs to a model of another shape or with other weights."""


class MissingPackageError(HeadwiseError):
    """A package of one of headwise's extras is not installed."""


class CheckpointError(HeadwiseError):
    """A folder is not a checkpoint that headwise can read."""


#: The largest whole number that a field may have. Bootstrap resamples have a limit of their own.
LARGEST = 1_000_000_000
_MOST = {"resamples": 1_000_000}


def require_whole(name: str, number: object, least: int = 1) -> None:
    """Make sure that a field is a whole number, not too small, and not so large that it must be a mistake.

    Example:
        >>> require_whole("rounds", True)
        Traceback (most recent call last):
        headwise.errors.FieldError: rounds: a whole number of at least 1, not True
    """
    if type(number) is not int or number < least:
        raise FieldError(name, f"a whole number of at least {least}, not {number!r}")
    if number > (most := _MOST.get(name, LARGEST)):
        raise FieldError(name, f"a whole number of at most {most:,}; the one given is larger")
