"""The names of the tasks, in a module without imports: the command line shows them without importing torch."""

#: All tasks.
TASKS = (
    *("pos", "ner", "nli", "slots", "intents", "classification", "translation", "lm", "masked-lm"),
    *(
        "continuation",
        "choice",
        "choice-per-token",
        "choice-per-byte",
        "choice-per-character",
        "minimal-pairs",
        "answer-language",
    ),
)
#: Names of tasks in titles; the other tasks are called by their own names.
TASK_TITLES = {
    "pos": "parts of speech",
    "ner": "named entities",
    "nli": "natural language inference",
    "lm": "language modelling",
    "masked-lm": "masked language modelling",
    "choice": "multiple choice",
    "choice-per-token": "multiple choice",
    "choice-per-byte": "multiple choice",
    "choice-per-character": "multiple choice",
    "minimal-pairs": "minimal pairs",
    "answer-language": "language of answers",
}
#: Tasks that label every word.
WORD_TASKS = ("pos", "ner", "slots")
#: Tasks whose labels are chosen from a list; data without labels can be scored by some games.
LABEL_TASKS = (*WORD_TASKS, "nli", "intents", "classification")
#: Tasks of multiple choice, and what each divides the log-likelihood of a choice by.
CHOICE_TASKS = {
    "choice": "none",
    "choice-per-token": "tokens",
    "choice-per-byte": "bytes",
    "choice-per-character": "characters",
    "minimal-pairs": "none",
}
#: Tasks of causal language models.
CAUSAL_TASKS = ("lm", "continuation", "answer-language", *CHOICE_TASKS)
#: Tasks that use the model's own output layer; the others need a classification head.
TEXT_TASKS = ("translation", "masked-lm", *CAUSAL_TASKS)
