"""Starting the explorer: from a model or a run to a server on this machine."""

import html
import ipaddress
import os
import secrets
import socket
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headwise.api import Data, open_setting
from headwise.errors import FieldError, HeadwiseError
from headwise.explorer.session import Session
from headwise.files import is_folder
from headwise.masks import HeadMask
from headwise.means import MeanOutputs
from headwise.runs.config import CONFIG
from headwise.scores import HeadScores
from headwise.scoring.plan import ScoringPlan, plan_of
from headwise.scoring.run_folder import load_scores, means_file, scored_folder
from headwise.support.extras import require

#: Default number of examples per language.
LIMIT = 40
#: Seconds until a server must answer, or must have ended.
_PATIENCE = 30.0
_ANY = ("0.0.0.0", "::")


def explore(
    model: Any,
    tokenizer: Any = None,
    data: Data = "",
    *,
    task: str = "",
    languages: str | Sequence[str] = "",
    split: str = "",
    limit: int = LIMIT,
    mask: HeadMask | None = None,
    out: str | os.PathLike[str] = "masks",
    export_dir: str | os.PathLike[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    public: bool = False,
    **loading: Any,
) -> "Explorer":
    """Open a page on which heads are switched off with a click, and see what changes.

    The page shows the metric of a sample of each language with the mask and without it, and the attention of any head
    on a typed sentence. It can save the mask and export the pruned model. The server runs in the background and only
    answers the page with the secret token in its address.

    Args:
        model: A transformers model with a head for the task, a PEFT model around one, the name of a model, or a run
            folder, which has the model, the data and the scores that colour the heads.
        tokenizer: Its tokenizer; by default the one that comes with the model of that name.
        data: A data set, or the name of one; by default that of the run.
        task: The task, such as `pos`; by default the task of the data set or of the run.
        languages: Codes, as a list or separated by commas, or `all`; by default those of the run, or all.
        split: Which part of the data; by default that of the run, or `dev`.
        limit: The maximum number of examples per language, the first ones.
        mask: The mask at the start; by default all heads are on.
        out: Folder for masks.
        export_dir: Folder for the pruned model, new or empty; without it no model can be exported.
        host: Address to listen on.
        port: Port to listen on; 0 for a free one.
        public: Allow a host that other machines can reach.
        loading: `device`, `dtype` and `piece`, for a model that is given by its name.

    Returns:
        The running explorer: `explorer.url` is the address of the page, `explorer.mask` the mask that was measured
        last, `explorer.close()` ends it.

    Raises:
        HeadwiseError: The model, the data and the options do not fit each other, or the address cannot be used.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> import headwise as hw
        >>> from headwise.models import load_tokenizer
        >>> config = BertConfig(vocab_size=250_037, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8, id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
        >>> rows = [{"text": text, "label": text, "language": "en", "split": "dev"} for text in ("yes", "no")]
        >>> data = hw.dataset(rows, task="classification")
        >>> with explore(BertForSequenceClassification(config), load_tokenizer("e5-small"), data) as explorer:
        ...     print(explorer.url.partition("?token=")[0].startswith("http://127.0.0.1:"))
        True
    """
    _require_server()
    check_host(host, public)
    run = Path(model) if isinstance(model, str | os.PathLike) and is_run(model) else None
    plan = None if run is None else plan_of(scored_folder(run))
    if plan is not None:
        model, data, task = plan.model, data or plan.data, task or plan.task
        languages, split = languages or plan.languages, split or plan.split
        loading = {"piece": plan.piece, **loading}
    setting = open_setting(model, tokenizer, data, task, **loading)
    split = split or "dev"
    examples = setting.examples(languages or "all", split, limit).examples
    scores, means = ({}, {}) if run is None or plan is None else _of_run(run, plan, examples, setting.heads.players())
    session = Session(
        setting,
        examples,
        out=Path(out),
        export_dir=None if export_dir is None else Path(export_dir),
        start=mask,
        scores=scores,
        baselines=means,
        data=data if isinstance(data, str) else "",
        about=" · ".join(filter(None, (f"split {split}", setting.dataset.note))),
    )
    return Explorer(session, host, port)


class Explorer:
    """A running explorer.

    Args:
        session: What the page can do.
        host: Address to listen on.
        port: Port to listen on; 0 for a free one.

    Attributes:
        session: What the page can do.
        url: The address of the page, with its secret token.

    Raises:
        HeadwiseError: The address cannot be used.
    """

    def __init__(self, session: Session, host: str = "127.0.0.1", port: int = 0) -> None:
        uvicorn = _require_server()
        from headwise.explorer.app import make_app
        from headwise.explorer.turns import Turns

        self.session, token = session, secrets.token_urlsafe(24)
        listening = _listen(host, port)
        port = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{'127.0.0.1' if host == '0.0.0.0' else shown}:{port}/?token={token}"
        self._turns = Turns()
        app = make_app(session, token, _host_names(host, port), self._turns)
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), name="explorer", daemon=True)
        self._thread.start()
        end = time.monotonic() + _PATIENCE
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                raise HeadwiseError(f"the explorer could not start on {host}, port {port}")
            time.sleep(0.01)

    @property
    def mask(self) -> HeadMask:
        """The mask that the page has measured last."""
        return self.session.mask

    def wait(self) -> None:
        """Wait until the explorer ends, or until Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """End the explorer. A computation that is running stops at its next batch."""
        self._turns.close()
        self._server.should_exit = True
        self._thread.join(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Explorer({self.url})" if self._thread.is_alive() else "Explorer(ended)"

    def _repr_html_(self) -> str:
        """A link to the page, for notebooks."""
        return f'<a href="{html.escape(self.url)}" target="_blank" rel="noopener">{html.escape(self.url)}</a>'


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a run folder."""
    return is_folder(path) and (Path(path) / CONFIG).is_file()


def check_host(host: str, public: bool) -> None:
    """Check that other machines cannot reach the explorer, unless this is wanted.

    Raises:
        HeadwiseError: The host is not that of this machine alone, and `public` is False.

    Example:
        >>> check_host("127.0.0.1", public=False), check_host("0.0.0.0", public=True)
        (None, None)
    """
    if not public and not _is_loopback(host):
        raise FieldError(
            "host",
            f"other machines can reach {host}, and the connection is not encrypted: leave --host out, or add "
            "--i-know-it-is-public (public=True)",
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _host_names(host: str, port: int) -> Collection[str] | None:
    """The values of the Host header that belong to an address; None if any host may be meant."""
    if host in _ANY:
        return None
    names = {host, "127.0.0.1", "localhost", "::1"} if _is_loopback(host) else {host}
    return {f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names}


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FieldError("port", f"cannot listen on {host}, port {port} ({reason}): choose another port or 0") from None


def _of_run(
    run: Path, plan: ScoringPlan, codes: Collection[str], heads: tuple[str, ...]
) -> tuple[dict[str, HeadScores], dict[str, MeanOutputs]]:
    """The scores of single heads in a run, and its mean outputs if they replace the heads that are off."""
    scores = {code: each for code, each in load_scores(run).items() if each.players == heads}
    files = {} if plan.baseline == "zero" else {code: means_file(run, code) for code in codes}
    return scores, {code: MeanOutputs.load(path) for code, path in files.items() if path is not None}


def _require_server() -> Any:
    require("starlette", "explore", "the explorer")
    return require("uvicorn", "explore", "the explorer")
