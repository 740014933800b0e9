"""What to tune and how: the settings of the training loop, and a plan that names everything else."""

from dataclasses import dataclass
from typing import cast, get_args

from headwise.errors import FieldError, require_whole
from headwise.tasks.task import Piece


@dataclass(frozen=True)
class TuningSettings:
    """Settings of the training loop.

    Attributes:
        epochs: Number of passes over the training examples, at most.
        learning_rate: Peak learning rate of AdamW.
        batch_tokens: Number of tokens in a batch, padding included. For translation, tokens of the longer side.
        warmup: Share of the steps during which the learning rate rises linearly.
        weight_decay: Weight decay of AdamW.
        freeze_embeddings: Keep the embeddings fixed, and an output layer that shares them. With a vocabulary of
            250,000 pieces they are most of the cost.
        patience: Stop after this number of epochs without a better dev value; 0 disables early stopping.
        bfloat16: Compute in bfloat16 where that is safe (autocast).
        seed: Seed of the order of the examples, of dropout and of a new classifier.
        stop_after: Stop after this number of epochs. The learning rate still follows the schedule of all `epochs`, so
            the model is the one that a whole run has after these epochs. None for all epochs.
        lora_rank: Train LoRA adapters of this rank in every linear layer of the encoder, and the classifier, instead of
            all weights; at the end the adapters are merged into the weights. They need a higher learning rate. 0 trains
            all weights.
        biases_only: Train only the biases of the encoder, and the classifier. They need a higher learning rate.

    Raises:
        HeadwiseError: A value is out of range; the message begins with the name of the field.
    """

    epochs: int = 3
    learning_rate: float = 2e-5
    batch_tokens: int = 1024
    warmup: float = 0.1
    weight_decay: float = 0.01
    freeze_embeddings: bool = True
    patience: int = 0
    bfloat16: bool = False
    seed: int = 0
    stop_after: int | None = None
    lora_rank: int = 0
    biases_only: bool = False

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_tokens", 1), ("patience", 0), ("seed", 0), ("lora_rank", 0)):
            require_whole(name, getattr(self, name), least)
        if not 0 <= self.learning_rate <= 1000:  # far beyond any use, and far from what the optimizer cannot compute
            raise FieldError("learning_rate", f"a number from 0 to 1000, not {self.learning_rate}")
        if self.biases_only and self.lora_rank:
            raise FieldError("biases_only", "must be False if LoRA adapters are trained")
        if self.stop_after is not None:
            require_whole("stop_after", self.stop_after)
            if self.stop_after > self.epochs:
                raise FieldError("stop_after", f"at most the number of epochs, {self.epochs}, not {self.stop_after}")


@dataclass(frozen=True)
class TuningPlan:
    """Everything that is needed to repeat a tuning run.

    Attributes:
        model: Name on the hub, a folder (also of a pruned model), or a default.
        task: The task, such as `pos`.
        data: A folder, `phrasebook`, `commands`, `hub:NAME` or a YAML file.
        train_languages: Comma-separated codes of the languages to train on, or `all`.
        share: Share of the training examples of each language to use. The examples of a smaller share are part of
            those of a larger share with the same seed.
        mask: Path of a mask file; the model is trained with these heads off. None for no mask.
        other_weights: The mask was made for other weights of the same shape.
        piece: Which piece of a word carries its label: `text` or `first`.
        window: Number of tokens that a causal model reads at a time (task `lm` only); None for the default of the task.
        epochs: See `TuningSettings`, as for the fields below.
        learning_rate: Peak learning rate.
        batch_tokens: Number of tokens in a batch.
        train_embeddings: Train the embeddings too.
        bfloat16: Compute in bfloat16.
        patience: Epochs without a better dev value before the run stops; 0 disables early stopping.
        lora_rank: Rank of LoRA adapters; 0 trains all weights.
        seed: Seed of everything random.
        device: Where the model is trained, one of `headwise.models.DEVICES`.
        dtype: The type of the weights, one of `headwise.models.DTYPES`.

    Raises:
        HeadwiseError: A value is out of range or does not belong to the task; the message begins with the field.

    Example:
        >>> plan = TuningPlan("e5-small", "pos", "phrasebook", epochs=1)
        >>> plan.settings.epochs, plan.settings.freeze_embeddings
        (1, True)
    """

    model: str
    task: str
    data: str
    train_languages: str = "en"
    share: float = 1.0
    mask: str | None = None
    other_weights: bool = False
    piece: str = "text"
    window: int | None = None
    epochs: int = 3
    learning_rate: float = 2e-5
    batch_tokens: int = 1024
    train_embeddings: bool = False
    bfloat16: bool = False
    patience: int = 0
    lora_rank: int = 0
    seed: int = 0
    device: str = "auto"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        word_piece(self.piece)
        if self.window is not None and self.task != "lm":
            raise FieldError("window", f"only the task lm uses it, not {self.task}: leave it out")
        check_share(self.share)
        _ = self.settings  # checks the numbers

    @property
    def settings(self) -> TuningSettings:
        """The settings of the training loop."""
        return TuningSettings(
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_tokens=self.batch_tokens,
            freeze_embeddings=not self.train_embeddings,
            patience=self.patience,
            bfloat16=self.bfloat16,
            seed=self.seed,
            lora_rank=self.lora_rank,
        )

    @property
    def word_piece(self) -> Piece:
        """The piece of a word that carries its label."""
        return word_piece(self.piece)


def word_piece(piece: str) -> Piece:
    """The piece of a word that carries its label; raises an error if there is no such piece."""
    if piece not in get_args(Piece):
        raise FieldError("piece", f"'text' or 'first', not {piece!r}")
    return cast(Piece, piece)


def check_share(share: float) -> None:
    """Raise an error if a share of the training examples is not above 0 and at most 1."""
    if not 0 < share <= 1:
        raise FieldError("share", f"a number above 0 and at most 1, not {share}")
