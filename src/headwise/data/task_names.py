"""The names of the tasks, in a module without imports: the command line shows them without importing torch."""

#: All tasks.
TASKS = ("pos", "ner", "nli", "slots", "intents", "classification", "translation", "lm", "choice")
#: Tasks that label every word.
WORD_TASKS = ("pos", "ner", "slots")
#: Tasks that use the model's own output layer; the others need a classification head.
TEXT_TASKS = ("translation", "lm", "choice")
