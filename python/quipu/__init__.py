"""quipu: a local engine for large language models.

    import quipu
    model = quipu.Model("models/demo")
    generator = quipu.Generator(model)
    for text in generator.stream("Once upon a time", max_new_tokens=50):
        print(text, end="", flush=True)

See docs/python.md in the project. `quipu.exllamav2` has the names and results of ExLlamaV2.
"""
from __future__ import annotations

from ._native import VERSION as __version__
from .errors import (
                     BadArgument,
                     BadFormat,
                     Busy,
                     Cancelled,
                     InputOutput,
                     NoFile,
                     NoMemory,
                     QuipuError,
                     TooLarge,
                     Unsupported,
)
from .events import Candidate, EndEvent, EngineStats, Event, PromptEvent, Result, TextEvent, Token
from .filters import Compiled, Constraint, Filter, choice, grammar, json_object, json_schema, prefix, regex
from .generator import Generator, GeneratorStats
from .job import Job, JobStats, Progress
from .model import Adapter, Model, ModelInfo, Template, devices, inspect
from .sequence import Sequence
from .settings import Settings
from .tokenizer import Tokenizer, TokenStream

__all__ = [
    "Adapter", "BadArgument", "BadFormat", "Busy", "Cancelled", "Candidate", "Compiled", "Constraint", "EndEvent",
    "EngineStats", "Event", "Filter", "Generator", "GeneratorStats", "InputOutput", "Job", "JobStats", "Model",
    "ModelInfo", "NoFile", "NoMemory", "Progress", "PromptEvent", "QuipuError", "Result", "Sequence", "Settings",
    "Template", "TextEvent", "Token", "TokenStream", "Tokenizer", "TooLarge", "Unsupported", "__version__", "choice",
    "devices", "grammar", "inspect", "json_object", "json_schema", "prefix", "regex",
]
