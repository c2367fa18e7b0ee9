#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/*.json.xz: small tokenizers that exercise every model, normaliser, pre-tokeniser,
post-processor and decoder of the tokenizer.json language with their options, and what the reference library makes of
some texts. The tokenizers are written or trained here on the texts below; nothing is taken from published models.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3
    python3 tests/golden/make_tokenizers.py
"""
import base64
import io
import json
import lzma
import os
import random

import sentencepiece
import tokenizers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers, AddedToken, Regex

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")

CORPUS = """The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs!
It was 1984, and the clocks were striking 13; "who's there?" she'd asked... I'll say we've won, they're fine.
Les élèves naïfs à Noël, où êtes-vous ? Straße, Österreich, Ärger über Öl. Привет, мир! Как дела, ёлка? Ещё йод.
日本語のテキストを書きます。東京タワー、カタカナ。你好，世界！这是一个测试。한국어 문장도 있습니다. สวัสดีชาวโลก ภาษาไทย
def main(argc, argv):\n    for i in range(10):\n\tprint(f"{i}: {argv[i]!r}")\n    return 0x1F + 3.14e-10 // 2
if (a != b && c >= d) { x->y = z[0] ^ ~w; } /* comment */ #define MAX(a,b) ((a)>(b)?(a):(b))
emoji 😀👍🏽👨‍👩‍👧 flags 🇩🇪 math ∑∫√ ½ ² ³ Ⅳ ﬁ ﬂ Å K µ ＡＢＣ １２３ مرحبا بالعالم שלום नमस्ते दुनिया
""".split("\n") * 3

TEXTS = [
    "", " ", "  ", "\n", "\t", "a", "Hello, world!", " Hello  world ", "hello\tworld\nnew\r\nline", "HELLO World's I'LL we've",
    "The quick brown fox, 123456 + 7.89 = x_y-z", "don't can't won't", "naïve café Ångström ÉLAN", "e\u0301a\u0308o\u0302 \u1ea5\u0323 q\u0307\u0323",
    "Straße İstanbul ſ ẞ Σίσυφος ΌΣΟΣ", "Привет, как дела? Ёж й", "日本語 テキスト、です。Tokyo", "你好，世界！abc中文", "한국어 문장 \u1112\u1161\u11ab",
    "สวัสดี ภาษาไทย ำ", "नमस्ते हिन्दी", "مرحبا עברית", "😀👍🏽👨\u200d👩\u200d👧 🇩🇪", "ﬁ ﬂ ½ ² Ⅳ Å K ＡＢ１２ ㍻ ㋿ ①",
    "a\u00a0b\u2003c\u3000d\u200be\ufefff\u2028g\u0085h", "x\x00y\x01z\x7f\x9f", "¿qué? «oui» “quote” ‘s’ …—–", "$€¥ +<=>^`|~ @#%&*",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "                                        x", "ab" * 40, "\u0301\u0301x",
    "<s>[CLS] a [SEP]</s>", "<x>tok<x> <y> a<y>b  <y> z", "YESTERDAY yesterday Yesterday", "<mask> <mask>x x<mask> -<mask>-", "1 22 333 4444 55555 ٣٤ ⅷ",
    "▁a▁▁b ▁", "##a ##b ab##c", "a-b--c---d", "unaffable unwanted runs", "low lower lowest newest", "\r\n\r\n \r\n", "caf\u00e9\r\n\u0300x", "\U0001d7d8\U0001d504\u1b4e\u1c89",
]


def chars(*extra):
    return sorted(set("".join(CORPUS)) | set("".join(extra)))


def word_vocab():
    words = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "<unk>", "hello", "Hello", "world", ",", "!", "the", "The", "quick", "a", "b", "▁a", "▁b", "▁", "H", "Ġ", "x",
             "123", "1", "2", "22", ".", "HELLO", "ab", "-", "--", "你", "好", " ", "\n", "don", "'", "t", "日本語", "é", "e", "yesterday", "ello", "hell", "cafe", "café"]
    return {w: i for i, w in enumerate(words)}


def word_level(**parts):
    return build(models.WordLevel(word_vocab(), unk_token="[UNK]"), **parts)


def char_level(**parts):
    """A WordLevel whose every character is a word apart from what the steps make of it: shows the steps' output."""
    vocab = {"[UNK]": 0}
    for c in chars("".join(TEXTS)):
        vocab.setdefault(c, len(vocab))
    return build(models.BPE({**vocab}, [], unk_token="[UNK]"), **parts)


def build(model, normalizer=None, pre=None, post=None, decoder=None, added=()):
    t = Tokenizer(model)
    if normalizer is not None:
        t.normalizer = normalizer
    if pre is not None:
        t.pre_tokenizer = pre
    if post is not None:
        t.post_processor = post
    if decoder is not None:
        t.decoder = decoder
    t.add_tokens([a for a in added if not a.special])
    t.add_special_tokens([a for a in added if a.special])
    return t


def trained_bpe(byte_level=False, **options):
    t = Tokenizer(models.BPE(**options))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else pre_tokenizers.Whitespace()
    kwargs = dict(vocab_size=700 if byte_level else 420, show_progress=False, special_tokens=["<unk>"])
    if byte_level:
        kwargs["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    if "continuing_subword_prefix" in options:
        kwargs["continuing_subword_prefix"] = options["continuing_subword_prefix"]
    if "end_of_word_suffix" in options:
        kwargs["end_of_word_suffix"] = options["end_of_word_suffix"]
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(**kwargs))
    return t


def trained_wordpiece(normalizer):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=450, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    return t


def trained_unigram():
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=330, show_progress=False, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"]))
    return json.loads(t.to_str())["model"]["vocab"]


def with_json(t, change):
    data = json.loads(t.to_str())
    change(data)
    return Tokenizer.from_str(json.dumps(data))


def normalizer_cases():
    n = normalizers
    rows = [("nfc", n.NFC()), ("nfd", n.NFD()), ("nfkc", n.NFKC()), ("nfkd", n.NFKD()), ("lowercase", n.Lowercase()), ("strip-left", n.Strip(True, False)),
            ("strip-right", n.Strip(False, True)), ("strip-both", n.Strip()), ("accents", n.Sequence([n.NFD(), n.StripAccents()])), ("accents-alone", n.StripAccents()),
            ("replace-text", n.Replace("l", "LL")), ("replace-regex", n.Replace(Regex(r"\s+|[aeiou]{2}"), "_")), ("replace-empty", n.Replace(Regex(r"\d+"), "")),
            ("prepend", n.Prepend("▁")), ("nmt", n.Nmt()), ("byte-level", n.ByteLevel()),
            ("sequence", n.Sequence([n.NFKC(), n.Lowercase(), n.Replace(" ", "▁"), n.Prepend("▁")]))]
    for clean in (True, False):
        for chinese in (True, False):
            for accents, lower in ((None, True), (None, False), (True, False), (False, True)):
                rows.append((f"bert-{clean:d}{chinese:d}{accents}{lower:d}", n.BertNormalizer(clean, chinese, accents, lower)))
    return [("norm-" + name, char_level(normalizer=x)) for name, x in rows]


def pre_tokenizer_cases():
    p = pre_tokenizers
    rows = [("whitespace", p.Whitespace()), ("whitespace-split", p.WhitespaceSplit()), ("bert", p.BertPreTokenizer()), ("scripts", p.UnicodeScripts()),
            ("delimiter", p.CharDelimiterSplit("-")), ("digits", p.Digits(False)), ("digits-each", p.Digits(True)), ("fixed3", p.FixedLength(3)),
            ("byte-level", p.ByteLevel(False)), ("byte-level-space", p.ByteLevel(True)), ("byte-level-plain", p.ByteLevel(True, use_regex=False)),
            ("sequence", p.Sequence([p.WhitespaceSplit(), p.Punctuation(), p.Digits(True)])), ("bytes-first", p.Sequence([p.ByteLevel(False, use_regex=False), p.Split("Ġ", "isolated")]))]
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        rows.append(("punctuation-" + behavior, p.Punctuation(behavior)))
        for invert in (False, True):
            rows.append((f"split-{behavior}-{invert:d}", p.Split("-", behavior, invert)))
            rows.append((f"split-regex-{behavior}-{invert:d}", p.Split(Regex(r"\w+(?<=[a-z])|\s"), behavior, invert)))
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            rows.append((f"metaspace-{scheme}-{split:d}", p.Metaspace("▁", scheme, split)))
    rows.append(("metaspace-char", p.Metaspace("_", "always")))
    rows.append(("metaspace-in-row", p.Sequence([p.WhitespaceSplit(), p.Metaspace("▁", "first")])))
    expressions = [r"[a-z&&[^aeiou]]+", r"[^\s\p{L}]|\p{Han}+", r"(?i:hello)|\h{2}", r"^\s*|\d{1,3}+", r"(?m:a.b)|[[:alpha:]]+", r"\b\w", r"[\p{L}[0-9_]]+", r"(?<!\S)\S", r"x{,2}y|\R", "", r"\X",
                   r"[^\W\d]+", r"\p{^L}+", r"\S+(?=\s)", r"[\r\n]+|[^\r\n]{1,5}", r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++"]
    for i, expression in enumerate(expressions):
        rows.append((f"regex-{i}", p.Split(Regex(expression), "isolated")))
    return [("pre-" + name, char_level(pre=x)) for name, x in rows]


def added_cases():
    n = normalizers
    tokens = [AddedToken("<x>"), AddedToken("<y>", lstrip=True, rstrip=True), AddedToken("<mask>", single_word=True), AddedToken("yesterday", normalized=True),
              AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True), AddedToken("[CLS]", special=True, rstrip=True), AddedToken("[CLS] a", special=True), AddedToken("hello", single_word=True)]
    return [("added-plain", word_level(pre=pre_tokenizers.Whitespace(), added=tokens)),
            ("added-lower", word_level(pre=pre_tokenizers.Whitespace(), normalizer=n.Lowercase(), added=tokens)),
            ("added-metaspace", char_level(pre=pre_tokenizers.Metaspace("▁", "first"), added=tokens)),
            ("added-prepend", char_level(normalizer=n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")]), added=tokens)),
            ("added-normalized-special", char_level(normalizer=n.Sequence([n.Lowercase(), n.Replace("a", "e")]), added=[AddedToken("[MASK]", special=True, normalized=True), AddedToken("abc", special=True, normalized=True), AddedToken("ebc", special=True)])),
            ("added-strip", char_level(normalizer=n.Strip(True, True), pre=pre_tokenizers.Metaspace("▁", "first", False), added=tokens))]


def post_cases():
    q = processors
    pre = pre_tokenizers.Whitespace()
    template = q.TemplateProcessing(single="[CLS] $A [SEP] [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    rows = [("bert", q.BertProcessing(("[SEP]", 2), ("[CLS]", 1))), ("roberta", q.RobertaProcessing(("[SEP]", 2), ("[CLS]", 1))), ("template", template), ("byte-level", q.ByteLevel()),
            ("sequence", q.Sequence([q.ByteLevel(), template, q.BertProcessing(("[PAD]", 3), ("[PAD]", 3))])),
            ("roberta-parts", q.Sequence([template, q.RobertaProcessing(("[PAD]", 3), ("[UNK]", 0))])), ("template-twice", q.Sequence([
                q.TemplateProcessing(single="[CLS] $A", pair="$A $B", special_tokens=[("[CLS]", 1)]), q.TemplateProcessing(single="$A [SEP]", pair="$A [SEP] $B [PAD]", special_tokens=[("[SEP]", 2), ("[PAD]", 3)])]))]
    return [("post-" + name, word_level(pre=pre, post=x)) for name, x in rows]


def decoder_cases():
    d = decoders
    pieces = ["[UNK]", "▁Hello", "▁", "▁▁", "##s", "##", "hello", "</w>", "lo</w>", "<0xE4>", "<0xBD>", "<0xA0>", "<0x41>", "<0xFF>", "<0x+A>", "<0xG0>", "Ġthe", "Ċ", "a b", "|", "<pad>", "h", "e", ".", "?", ",", "'", "n't", "'s", "do", "not",
              "é", "你", "ĠĠ", "Ãī", "H", "HH", "xHy", " ' ", "Ń", "", " ", "  x  "]
    rows = [("none", None), ("byte-level", d.ByteLevel()), ("byte-fallback", d.ByteFallback()), ("fuse", d.Fuse()), ("wordpiece", d.WordPiece()), ("wordpiece-plain", d.WordPiece("##", False)), ("ctc", d.CTC()), ("ctc-plain", d.CTC("<pad>", "|", False)),
            ("bpe", d.BPEDecoder("</w>")), ("replace", d.Replace("▁", " ")), ("replace-regex", d.Replace(Regex("[hH]+"), "J")), ("strip", d.Strip("H", 1, 0)), ("strip2", d.Strip(" ", 2, 2)),
            ("metaspace-always", d.Metaspace("▁", "always")), ("metaspace-first", d.Metaspace("▁", "first")), ("metaspace-never", d.Metaspace("▁", "never")),
            ("spm", d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])), ("gemma", d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse()]))]
    out = []
    for name, decoder in rows:
        t = build(models.WordLevel({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"), pre=pre_tokenizers.WhitespaceSplit(), decoder=decoder, added=[AddedToken("<end>", special=True), AddedToken("not special here")])
        out.append(("dec-" + name, t))
    return out


def model_cases():
    n, p = normalizers, pre_tokenizers
    rows = [("wordlevel", word_level(pre=p.Whitespace())), ("wordlevel-whole", word_level()),
            ("wordpiece", trained_wordpiece(n.BertNormalizer())), ("wordpiece-cased", trained_wordpiece(n.BertNormalizer(lowercase=False))),
            ("bpe", trained_bpe(unk_token="<unk>")), ("bpe-fuse", trained_bpe(unk_token="<unk>", fuse_unk=True)), ("bpe-no-unk", trained_bpe()),
            ("bpe-prefix", trained_bpe(unk_token="<unk>", continuing_subword_prefix="##")), ("bpe-suffix", trained_bpe(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True)),
            ("bpe-bytes", trained_bpe(byte_level=True)), ("bpe-bytes-ignore", trained_bpe(byte_level=True, ignore_merges=True))]
    some = trained_bpe(unk_token="<unk>", byte_fallback=True)

    def bytes_for(data, which):
        vocab = data["model"]["vocab"]
        for b in which:
            vocab.setdefault(f"<0x{b:02X}>", len(vocab))

    rows.append(("bpe-fallback", with_json(some, lambda d: bytes_for(d, range(256)))))
    rows.append(("bpe-fallback-part", with_json(some, lambda d: bytes_for(d, range(0, 256, 2)))))

    def whole(data):
        data["pre_tokenizer"] = None
        bytes_for(data, range(256))

    rows.append(("bpe-whole-text", with_json(some, whole)))
    rows.append(("bpe-whole-unk", with_json(trained_bpe(unk_token="<unk>", fuse_unk=True), lambda d: d.update(pre_tokenizer=None))))
    rows.append(("bpe-whole-drop", with_json(trained_bpe(), lambda d: d.update(pre_tokenizer=None))))
    rows.append(("bpe-old-merges", with_json(trained_bpe(byte_level=True), lambda d: d["model"].update(merges=[" ".join(m) for m in d["model"]["merges"]]))))

    def no_type(data):
        del data["model"]["type"]

    rows.append(("bpe-no-type", with_json(trained_bpe(byte_level=True), no_type)))
    pieces = trained_unigram()
    rows.append(("unigram", build(models.Unigram([tuple(x) for x in pieces], 0, False), pre=p.Metaspace())))
    rows.append(("unigram-whole", build(models.Unigram([tuple(x) for x in pieces], 0, False))))
    rows.append(("unigram-bytes", build(models.Unigram([tuple(x) for x in pieces] + [(f"<0x{b:02X}>", -9.0 - b / 100) for b in range(256)], 0, True), pre=p.Metaspace())))
    rows.append(("unigram-ties", build(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -1.0), ("ab", -2.0), ("aba", -3.0), ("ba", -2.0), ("ll", -1.5), ("l", -0.75), ("xy", -30.0)], 0, False))))
    return [("model-" + name, t) for name, t in rows]


def golden(name, t, rng):
    text = t.to_str()
    t = Tokenizer.from_str(text)
    size = max(t.get_vocab(True).values()) + 1
    rows, lists = [], []
    for s in TEXTS:
        try:
            rows.append([s, t.encode(s).ids, t.encode(s, add_special_tokens=False).ids])
        except Exception as e:
            rows.append([s, None, None])
    for i in range(12):
        ids = [rng.randrange(size) for _ in range(rng.randint(1, 9))]
        lists.append(ids)
    lists += [r[1] for r in rows[5:16] if r[1]]
    decodes, streams = [], []
    for ids in list(lists):
        try:
            decodes.append([ids, t.decode(ids, skip_special_tokens=False), t.decode(ids)])
        except BaseException:  # the reference panics where Strip meets from both ends
            lists.remove(ids)
    for ids in lists[:8] + lists[-3:]:
        stream, chunks = decoders.DecodeStream(skip_special_tokens=True), []
        try:
            for i in ids:
                chunks.append(stream.step(t, i))
        except BaseException:
            chunks = None
        if chunks is not None:
            streams.append([ids, chunks])
    plain = Tokenizer.from_str(text)
    plain.encode_special_tokens = True
    specials = [[s, plain.encode(s, add_special_tokens=False).ids] for s in TEXTS if "<" in s or "[" in s] if not name.startswith("dec-none") else []
    return {"name": name, "tokenizer": text, "encode": rows, "decode": decodes, "stream": streams, "plain_special": specials}


def all_cases():
    return model_cases() + normalizer_cases() + pre_tokenizer_cases() + added_cases() + post_cases() + decoder_cases()


def spm_cases():
    """tokenizer.model files: both kinds, all normalisers, byte fallback, user-defined symbols."""
    rows = []
    common = dict(vocab_size=400, hard_vocab_limit=False, character_coverage=0.98, minloglevel=2, num_threads=1)
    options = [("bpe", dict(model_type="bpe")), ("bpe-bytes", dict(model_type="bpe", byte_fallback=True, vocab_size=600, normalization_rule_name="identity", remove_extra_whitespaces=False)),
               ("unigram", dict(model_type="unigram")), ("unigram-cf", dict(model_type="unigram", normalization_rule_name="nmt_nfkc_cf")),
               ("unigram-bytes", dict(model_type="unigram", byte_fallback=True, vocab_size=600, normalization_rule_name="identity")),
               ("bpe-user", dict(model_type="bpe", user_defined_symbols=["<sep>", "foo", "1984"], add_dummy_prefix=False)),
               ("unigram-user", dict(model_type="unigram", user_defined_symbols=["<sep>", "foo", "1984"])),
               ("bpe-suffix", dict(model_type="bpe", treat_whitespace_as_suffix=True)), ("unigram-nfkc", dict(model_type="unigram", normalization_rule_name="nfkc", split_digits=True))]
    for name, option in options:
        blob = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=blob, **{**common, **option})
        s = sentencepiece.SentencePieceProcessor(model_proto=blob.getvalue())
        texts = TEXTS + ["foo<sep>bar foo 1984 19841984", "a <sep> b"]
        rows.append({"name": name, "model": base64.b64encode(blob.getvalue()).decode(), "encode": [[x, s.encode(x)] for x in texts if "\0" not in x]})
    return rows


def tiktoken_cases():
    import tiktoken
    t = trained_bpe(byte_level=True)
    unicode_to_byte = {v: k for k, v in byte_alphabet().items()}
    vocab = sorted(t.get_vocab().items(), key=lambda x: x[1])
    ranks, lines = {}, []
    for piece, _ in vocab:
        if piece == "<unk>":
            continue
        raw = bytes(unicode_to_byte[c] for c in piece)
        ranks[raw] = len(ranks)
        lines.append(base64.b64encode(raw).decode() + f" {ranks[raw]}")
    pattern = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
    e = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return [{"name": "cl100k", "pattern": "cl100k_base", "file": "\n".join(lines) + "\n", "encode": [[x, e.encode_ordinary(x)] for x in TEXTS + CORPUS[:8]]}]


def byte_alphabet():
    own = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, n = {b: chr(b) for b in own}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + n)
            n += 1
    return table


def write(name, rows):
    with lzma.open(os.path.join(FOLDER, name + ".xz"), "wt", preset=9 | lzma.PRESET_EXTREME, check=lzma.CHECK_CRC32) as f:
        f.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")


def main():
    rng = random.Random(7)
    os.makedirs(FOLDER, exist_ok=True)
    write("steps.json", [golden(name, t, rng) for name, t in all_cases()])
    write("spm.json", spm_cases())
    write("tiktoken.json", tiktoken_cases())
    print("made with tokenizers", tokenizers.__version__, "sentencepiece", sentencepiece.__version__)


if __name__ == "__main__":
    main()
