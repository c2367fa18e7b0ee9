"""Text to ids and back. A tokenizer is immutable: any number of threads may share it."""
from __future__ import annotations

import collections
import os
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from ._native import NULL, c_ids, check, ffi, lib, new_error, take_text, text_of
from .owned import Owned

MAX_CONSTRAINTS = 256  # compiled ones that a tokenizer remembers


class Tokenizer:
    """`Tokenizer("models/demo")` opens a folder or a tokenizer.json; `model.tokenizer` is a model's own."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        slot, err = ffi.new("qp_tokenizer **"), new_error()
        check(lib.qp_tokenizer_open(slot, os.fsencode(path), err), err)
        self._set_up(slot[0], _Handle(slot[0]))

    @classmethod
    def _borrow(cls, pointer: Any, owner: Any) -> Tokenizer:
        """The one that belongs to `owner`, which is kept."""
        tokenizer = cls.__new__(cls)
        tokenizer._set_up(pointer, owner)
        return tokenizer

    def _set_up(self, pointer: Any, owner: Any) -> None:
        self._ptr = pointer
        self._owner = owner
        self._lock = threading.Lock()
        self._pieces: Optional[List[str]] = None
        self._constraints: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        self._data: Dict[str, Any] = {}

    def __len__(self) -> int:
        return int(lib.qp_tokenizer_size(self._ptr))

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> List[int]:
        """`add_special`: with the tokens that the model wants around a text (bos). `parse_special`: "<|eot|>" and its
        like in the text are the special tokens."""
        flags = (0 if add_special else lib.QP_TOKENIZE_NO_SPECIAL) | (0 if parse_special else
                                                                     lib.QP_TOKENIZE_PLAIN_SPECIAL)
        raw = text.encode("utf-8", "surrogatepass")
        slot, count, err = ffi.new("int32_t **"), ffi.new("size_t *"), new_error()
        check(lib.qp_tokenize(self._ptr, raw, len(raw), flags, slot, count, err), err)
        ids: List[int] = ffi.unpack(slot[0], count[0]) if count[0] else []
        lib.qp_free(slot[0])
        return ids

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        keep: List[Any] = []
        array, n = c_ids(ids, keep)
        slot, count, err = ffi.new("char **"), ffi.new("size_t *"), new_error()
        flags = lib.QP_DETOKENIZE_SKIP_SPECIAL if skip_special else 0
        check(lib.qp_detokenize(self._ptr, array, n, flags, slot, count, err), err)
        return take_text(slot, count[0])

    def token_bytes(self, id: int) -> bytes:
        """What the id adds to a text in its middle: " the", or a part of a character."""
        return self._write(lib.qp_token_bytes, id)

    def piece(self, id: int) -> str:
        """The raw entry of the vocabulary."""
        return self._write(lambda t, i, out, n: lib.qp_token_piece(t, i, out, n, NULL), id).decode("utf-8", "replace")

    def _write(self, function: Callable[..., int], id: int) -> bytes:
        out = ffi.new("char[]", 256)
        n = function(self._ptr, id, out, 256)
        if n > 256:
            out = ffi.new("char[]", n)
            function(self._ptr, id, out, n)
        if n < 0:
            raise IndexError(f"{id} is no token: the ids are 0 to {len(self) - 1}")
        return bytes(ffi.buffer(out, n))

    def id_of(self, piece: str) -> Optional[int]:
        """The id of an exact entry or added token."""
        id = int(lib.qp_token_id(self._ptr, piece.encode("utf-8", "surrogatepass")))
        return None if id < 0 else id

    def is_special(self, id: int) -> bool:
        special = ffi.new("bool *")
        if lib.qp_token_piece(self._ptr, id, NULL, 0, special) < 0:
            raise IndexError(f"{id} is no token: the ids are 0 to {len(self) - 1}")
        return bool(special[0])

    def pieces(self) -> List[str]:
        """The text of every id as it stands in the middle of a text, made once."""
        with self._lock:
            if self._pieces is None:
                self._pieces = [self._text_of(id) for id in range(len(self))]
            return self._pieces

    def _text_of(self, id: int) -> str:
        try:
            return self.token_bytes(id).decode("utf-8", "replace")
        except IndexError:
            return ""  # a hole in the vocabulary

    def stream(self, *, skip_special: bool = False) -> TokenStream:
        """Ids to text one at a time, never half a character."""
        return TokenStream(self, skip_special)

    def _remember(self, name: str, make: Callable[[], Any]) -> Any:
        """Data that is made once per tokenizer; two threads may make it, one is kept."""
        if name not in self._data:
            made = make()
            with self._lock:
                self._data.setdefault(name, made)
        return self._data[name]


class _Handle:
    """Closes a tokenizer when neither it nor what was compiled for it is needed any more."""

    def __init__(self, pointer: Any) -> None:
        self.owned = Owned(pointer, lib.qp_tokenizer_close)


class TokenStream:
    """`add(id)` gives the text that has become visible, `end()` what was still held back."""

    def __init__(self, tokenizer: Tokenizer, skip_special: bool) -> None:
        slot, err = ffi.new("qp_detok_stream **"), new_error()
        flags = lib.QP_DETOKENIZE_SKIP_SPECIAL if skip_special else 0
        check(lib.qp_detok_stream_new(slot, tokenizer._ptr, flags, err), err)
        self._ptr = slot[0]
        self._tokenizer = tokenizer
        self._text, self._n = ffi.new("char **"), ffi.new("size_t *")
        self._has, self._err = ffi.new("bool *"), err
        self._owned = Owned(slot[0], lib.qp_detok_stream_free, tokenizer._owner)

    def add(self, id: int) -> str:
        check(lib.qp_detok_stream_next(self._ptr, id, self._text, self._n, self._has, self._err), self._err)
        return text_of(self._text[0], self._n[0]) if self._n[0] else ""

    def end(self) -> str:
        check(lib.qp_detok_stream_end(self._ptr, self._text, self._n, self._err), self._err)
        return text_of(self._text[0], self._n[0]) if self._n[0] else ""
