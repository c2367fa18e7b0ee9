"""ExLlamaV2Tokenizer: text to tensors of ids and back."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Tuple, Union

from ..model import Template
from ..tokenizer import Tokenizer
from .arrays import ids_array, to_rows
from .config import ExLlamaV2Config, refuse


class ExLlamaV2Tokenizer:
    def __init__(
        self,
        config: ExLlamaV2Config,
        lazy_init: bool = True,
        force_json: bool = False,
        force_spm: bool = False,
    ) -> None:
        if config.model_dir is None:
            raise ValueError("the config has no model_dir")
        self.config = config
        self.quipu = Tokenizer(config.model_dir)
        names = _special_names(config.model_dir)
        self.bos_token_id = self._id_of(names.get("bos_token"), config.bos_token_id)
        self.eos_token_id = self._id_of(names.get("eos_token"), config.eos_token_id)
        self.unk_token_id = self._id_of(names.get("unk_token"), None)
        pad = self._id_of(names.get("pad_token"), None)
        self.pad_token_id = next((id for id in (pad, self.eos_token_id, 0) if id is not None), 0)
        self.bos_token, self.eos_token = self._name(self.bos_token_id), self._name(self.eos_token_id)
        self.unk_token, self.pad_token = self._name(self.unk_token_id), self._name(self.pad_token_id)
        self.newline_token_id = self._only("\n")
        self.space_token_id = self._only(" ")
        self._tables: Dict[str, Any] = {}

    def _id_of(self, piece: Optional[str], otherwise: Optional[int]) -> Optional[int]:
        found = self.quipu.id_of(piece) if piece else None
        return otherwise if found is None else found

    def _name(self, id: Optional[int]) -> str:
        return "" if id is None else self.quipu.piece(id)

    def _only(self, text: str) -> Optional[int]:
        ids = self.quipu.encode(text, add_special=False)
        return ids[-1] if ids else None

    def get_vocab_size(self) -> int:
        return len(self.quipu)

    def single_id(self, token: str) -> int:
        id = self.quipu.id_of(token)
        if id is None:
            ids = self.quipu.encode(token, add_special=False)
            if len(ids) != 1:
                raise KeyError(f"{token!r} is {len(ids)} tokens, not one")
            id = ids[0]
        return id

    # ---- text to ids ----

    def _encode_one(self, text: str, add_bos: bool, add_eos: bool, encode_special_tokens: bool) -> List[int]:
        ids = self.quipu.encode(text, add_special=False, parse_special=encode_special_tokens)
        if add_bos and self.bos_token_id is not None:
            ids.insert(0, self.bos_token_id)
        if add_eos and self.eos_token_id is not None:
            ids.append(self.eos_token_id)
        return ids

    def encode(
        self,
        text: Union[str, List[str], Tuple[str, str]],
        add_bos: bool = False,
        add_eos: bool = False,
        encode_special_tokens: bool = False,
        return_offsets: bool = False,
        embeddings: Any = None,
    ) -> Any:
        """Ids [1, n], for a list [rows, n] padded at the left; with return_offsets also how far each row is moved."""
        if embeddings:
            raise refuse("embeddings: there are no multimodal models yet")
        texts = [text] if isinstance(text, str) else list(text)
        rows = [self._encode_one(one, add_bos, add_eos, encode_special_tokens) for one in texts]
        longest = max((len(row) for row in rows), default=0)
        padded = ids_array([[self.pad_token_id] * (longest - len(row)) + row for row in rows])
        if not return_offsets:
            return padded
        return padded, ids_array([[len(row) - longest] for row in rows])

    def num_tokens(self, text: str) -> int:
        return len(self.quipu.encode(text, add_special=False, parse_special=False))

    # ---- ids to text ----

    def decode(self, ids: Any, decode_special_tokens: bool = False) -> Any:
        """A text for ids of shape [n], a list of texts for [rows, n]."""
        is_batch = (hasattr(ids, "shape") and len(ids.shape) == 2) or \
            (isinstance(ids, (list, tuple)) and len(ids) > 0 and isinstance(ids[0], (list, tuple)))
        rows = to_rows(ids, "ids")
        texts = [self._decode_one(row, decode_special_tokens) for row in rows]
        return texts if is_batch else texts[0]

    def _decode_one(self, row: List[int], decode_special_tokens: bool) -> str:
        if not decode_special_tokens:
            row = [id for id in row if id != self.pad_token_id]
        return self.quipu.decode(row, skip_special=not decode_special_tokens)

    # ---- tables ----

    def get_id_to_piece_list(self, include_special_tokens: bool = False) -> List[str]:
        """The text of every id; of special ones "" unless they are asked for."""
        def make() -> List[str]:
            return [
                piece if not self._is_special(id) else (self.quipu.piece(id) if include_special_tokens else "")
                for id, piece in enumerate(self.quipu.pieces())
            ]

        found: List[str] = self._table(f"pieces{include_special_tokens}", make)
        return found

    def _is_special(self, id: int) -> bool:
        try:
            return self.quipu.is_special(id)
        except IndexError:
            return False

    def get_piece_to_id_dict(self) -> Dict[str, int]:
        def make() -> Dict[str, int]:
            found: Dict[str, int] = {}
            for id, piece in enumerate(self.get_id_to_piece_list()):
                found.setdefault(piece, id)
            return found

        table: Dict[str, int] = self._table("piece_to_id", make)
        return table

    def get_prefix_id_to_ids_dict(self) -> Dict[int, List[int]]:
        """For each id all whose text begins with its text."""
        def make() -> Dict[int, List[int]]:
            pieces = self.get_id_to_piece_list()
            order = sorted((id for id in range(len(pieces)) if pieces[id]), key=lambda id: pieces[id])
            found: Dict[int, List[int]] = {}
            for place, id in enumerate(order):
                end = place
                while end < len(order) and pieces[order[end]].startswith(pieces[id]):
                    end += 1
                start = place
                while start > 0 and pieces[order[start - 1]] == pieces[id]:
                    start -= 1
                found[id] = sorted(order[start:end])
            return found

        table: Dict[int, List[int]] = self._table("prefix", make)
        return table

    def _table(self, name: str, make: Any) -> Any:
        if name not in self._tables:
            self._tables[name] = make()
        return self._tables[name]

    # ---- chat ----

    def apply_chat_template(self, messages: List[Dict[str, Any]], add_generation_prompt: bool = True,
                            tools: Any = None, **variables: Any) -> Any:
        """The ids [1, n] of a conversation in the model's template."""
        template = self._table("template", lambda: Template(self.config.model_dir or ""))
        text = template.render(messages, add_generation_prompt=add_generation_prompt, tools=tools, **variables)
        return ids_array([self.quipu.encode(text, add_special=False)])


def _special_names(model_dir: str) -> Dict[str, str]:
    """bos_token and its like out of tokenizer_config.json, as text."""
    try:
        with open(os.path.join(model_dir, "tokenizer_config.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    names = {}
    for key in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = found.get(key) if isinstance(found, dict) else None
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            names[key] = value
    return names
