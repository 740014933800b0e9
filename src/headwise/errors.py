"""The errors a user's mistake leads to: one sentence each, no traceback on the command line."""


class HeadwiseError(ValueError):
    """Something the user gave does not fit; the message says what and how to mend it."""


class UnknownFamilyError(HeadwiseError):
    """The model's family has no row in `headwise.architectures`."""


class MaskMismatchError(HeadwiseError):
    """A mask belongs to a model of another shape or with other weights."""


class CheckpointError(HeadwiseError):
    """A folder is not a checkpoint that headwise can read."""
