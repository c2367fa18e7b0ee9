#!/usr/bin/env python3
"""How quipu's demo model was made.

The story in four acts, each a sub-command:

  tokenizer   trains a byte-level BPE vocabulary (Llama-3's split pattern, digits never
              merged) on the corpus and writes the tokenizer files.
  teacher     trains a larger model of the same family (some 40M parameters) on the same
              text.  It is thrown away afterwards.
  student     trains the model that is shipped (some 11M parameters).  The loss is a mix of
              the text itself and, if --teacher names a checkpoint, the teacher's whole
              distribution over the next token.  Writes config.json, model.safetensors
              (BF16), metrics.json and the training curve, after it has measured final and
              averaged weights, both rounded to BF16, on text that was held out.
  report      on the CPU, out of the finished folder alone: samples.md (raw and chat, at the
              settings of generation_config.json) and goldens.json (greedy continuations in
              float32 for testing the engine).

The text: books.txt.xz (documents separated by a form feed line, tales first) and
chat.jsonl.xz (one {"source", "messages"} a line), see README.md for what they hold, and
beside this file own_chat.txt and own_stories.txt.  Books are cut to rows of --ctx tokens out
of a shuffled stream, chats are packed whole; each row starts with <|begin_of_text|>.  Tales
are read more often than other books, and the share of chat grows while the learning rate
falls.  Hidden matrices are trained with Muon, embeddings and norms with Adam.

Needs: Python 3.10+, torch 2.6+, numpy, tokenizers, safetensors; matplotlib for the curve,
transformers for the report.  One recent GPU with 80 GB or more does the whole in minutes
(--batch takes less memory); `--limit 2 --steps 3 --batch 2 --ctx 128` is a try-out for a CPU.
"""
import argparse
import hashlib
import itertools
import json
import lzma
import math
import random
import re
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
BOS, EOS, HEAD, HEAD_END, EOT = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                                 "<|end_header_id|>", "<|eot_id|>")
SPECIAL = [BOS, EOS, HEAD, HEAD_END, EOT] + [f"<|reserved_special_token_{i}|>" for i in range(11)]
VOCAB = 6144
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = """{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim \
+ '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
CONTEXT, THETA, EPS = 2048, 10000.0, 1e-5
SHAPES = {  # hidden size, layers, heads, key/value heads, feed-forward size; heads are 64 wide
    "student": dict(hidden=256, layers=12, heads=4, kv=2, inter=768),
    "teacher": dict(hidden=512, layers=12, heads=8, kv=8, inter=1408),
}

# ------------------------------------------------------------------------------ the text

TALE_DOCS = 788        # the corpus starts with so many tales and children's stories
HELD_TALES, HELD_BOOKS = 24, 6
HELD_CHAT = 0.03

# How often an epoch of chat reads a conversation of a source (1 where not named).  Left out:
# chatterbot-corpus (gossip, code); seldom: long passages and sums beyond a model this small.
RATE = {"chatterbot-corpus": 0, "gsm8k-train": 0.3, "fairytaleqa": 0.4, "fairytaleqa-tell": 0.6,
        "self-instruct-user": 0.5, "countries": 2, "own-words": 2, "own-facts": 4, "own-memory": 2,
        "own-chat": 4, "own-sums": 0.7, "own-names": 0.7}
FACTS = {"countries", "own-facts", "own-words"}    # never held out: nothing else tells them
USER_WEIGHT = 0.2      # loss on questions; answers have 1, small talk of unknown users 0
STORIES = 6000         # stories of own_stories.txt, each written once
STORY_RATE = 0.1       # and their share in an epoch of chat
SYSTEM = ["You are a helpful assistant.", "You are a friendly assistant.",
          "You are a small and friendly model.", "You are Quipu, a helpful assistant.",
          "Answer in a few words.", "You are a storyteller for children."]


def load_books(corpus):
    text = lzma.open(corpus / "books.txt.xz", "rt", encoding="utf-8").read()
    return [d.strip() for d in text.split("\n\f\n") if d.strip()]


def load_chat(corpus):
    with lzma.open(corpus / "chat.jsonl.xz", "rt", encoding="utf-8") as f:
        chats = [json.loads(line) for line in f]
    refusal = re.compile(r"\b(story|tale|fable|joke|poem|rhyme)\b", re.I)
    return [c for c in chats if not (c["source"].startswith("personality")
                                     and refusal.search(c["messages"][-2]["content"]))]


def unit_hash(key):
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2.0 ** 64


def split_books(docs, chats):
    """Held-out documents: no passage of theirs may stand in a chat either."""
    long = re.compile(r"[^.!?\n]{60,}")
    seen = {s.strip() for c in chats for m in c["messages"] for s in long.findall(m["content"])}

    def clean(d):
        found = [s.strip() for s in long.findall(d)]
        return found and sum(s in seen for s in found) <= 0.01 * len(found)

    order = sorted(range(len(docs)), key=lambda i: unit_hash(docs[i][:500]))
    tales = [i for i in order if i < TALE_DOCS and 2000 < len(docs[i]) < 40000 and clean(docs[i])]
    books = [i for i in order if i >= TALE_DOCS and 20000 < len(docs[i]) < 400000]
    return set(tales[:HELD_TALES]) | set(books[:HELD_BOOKS])


def held_chat(c):
    """Whether a conversation is held out; those that share a long passage stay together."""
    if c["source"] in FACTS:
        return False
    longest = max((p for m in c["messages"] for p in m["content"].split("\n")), key=len)
    first = next(m["content"] for m in c["messages"] if m["role"] == "user")
    return unit_hash(longest if len(longest) > 200 else first.lower()) < HELD_CHAT


def own_chats():
    out = []
    for line in (HERE / "own_chat.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            asked, answers = (part.split("|") for part in line.split("=>"))
            out += [dict(source="own-chat", messages=[
                dict(role="user", content=q.strip()),
                dict(role="assistant", content=a.strip().replace("\\n", "\n"))])
                for q in asked for a in answers]
    return out


class Stories:
    """Writes short stories by the grammar of own_stories.txt, with a request for each."""

    def __init__(self):
        self.rules = {}
        for line in (HERE / "own_stories.txt").read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                name, ways = line.split(":", 1)
                self.rules[name] = [w.strip() for w in ways.split(" | ")]
        self.plots = sorted({r.rstrip("0123456789") for r in self.rules if r[-1].isdigit()})

    def write(self, rng):
        pick = lambda name: rng.choice(self.rules[name])
        hero, friend = ((pick("animal" if rng.random() < 0.6 else "person")) for _ in range(2))
        slot = {"A": pick("adjective"), "H": hero, "P": pick("place"), "F": friend,
                "T": pick("treasure")}
        women = {"queen", "princess", "girl", "woman", "witch", "fairy", "grandmother", "hen", "cow"}
        men = {"king", "prince", "boy", "man", "fisherman", "wizard"}
        for kind, prefix, name in ((hero, "", "N"), (friend, "f", "M")):
            she = kind in women or (kind not in men and rng.random() < 0.5)
            slot[name] = pick("female" if she else "male")
            slot.update({prefix + k: v for k, v in zip(
                ("he", "him", "his", "himself"),
                ("she", "her", "her", "herself") if she else ("he", "him", "his", "himself"))})
        slot.update({k.capitalize(): v.capitalize() for k, v in list(slot.items())
                     if k in ("he", "his", "him")})

        def expand(name):
            text = re.sub(r"\[(\w+)\]", lambda m: expand(m[1]), pick(name))
            return re.sub(r"\{(\w+)\}", lambda m: slot[m[1]], text)

        plot = rng.choice(self.plots)
        steps = sorted(r for r in self.rules if r.rstrip("0123456789") == plot and r[-1].isdigit())
        parts = [expand("open")] + ([expand("daily")] if rng.random() < 0.6 else [])
        half = rng.randint(2, len(steps) - 2)
        first = " ".join(parts + [expand(s) for s in steps[:half]])
        second = " ".join([expand(s) for s in steps[half:]]
                          + ([expand("end")] if rng.random() < 0.5 else []))
        story = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", first + "\n\n" + second)

        about = rng.choice([f"a {slot['A']} {hero}", f"a {hero}", f"a {hero}",
                            f"a {hero} and a {friend}", f"a {hero} named {slot['N']}",
                            f"a {hero} called {slot['N']}", ""])
        ask = rng.choice(["Tell me a story", "Tell me a short story", "Please tell me a story",
                          "Can you tell me a story", "Write a story", "Write a short story",
                          "I would like to hear a story", "Tell me a tale"])
        end = "?" if ask.startswith("Can") else rng.choice([".", ".", ".", ""])
        request = ask + (" about " + about if about else "") + end
        turns = [(re.sub(r"\ba (?=[aeiou])", "an ", request), story)]
        follow = rng.random()
        if follow < 0.1:
            turns.append((f"What was the name of the {hero}?", f"The {hero} was called {slot['N']}."))
        elif follow < 0.2:
            turns.append((f"Where did the {hero} live?", f"The {hero} lived {slot['P']}."))
        elif follow < 0.3:
            turns.append((rng.choice(["Thank you!", "That was a nice story.", "I liked it."]),
                          rng.choice(["You are welcome!", "I am glad you liked it."])))
        return dict(source="own-stories", messages=[
            m for q, a in turns for m in (dict(role="user", content=q),
                                          dict(role="assistant", content=a))])


def own_sums():
    """Small sums, worded as in the corpus."""
    out = []
    for a in range(21):
        for b in range(21):
            for sign, word, result in (("+", "plus", a + b), ("-", "minus", a - b)):
                if result >= 0:
                    out += [(f"What is {a} {word} {b}?", f"{a} {word} {b} is {result}."),
                            (f"{a} {sign} {b} = ?", f"{result}")]
    return [dict(source="own-sums", messages=[dict(role="user", content=q),
                                              dict(role="assistant", content=a)]) for q, a in out]


def own_names(rng, stories):
    """Talks in which the user tells a name and asks for it later."""
    out = []
    for name in stories.rules["male"] + stories.rules["female"] + ["Sam", "Kate", "Paul", "Laura",
                                                                   "David", "Sarah", "Ben", "Julia"]:
        for _ in range(8):
            turns = [(rng.choice(["My name is {}.", "I am {}.", "Hello, my name is {}.", "Hi, I'm {}.",
                                  "I am called {}.", "Hello! My name is {}."]),
                      rng.choice(["Nice to meet you, {}!", "Hello, {}! How can I help you?",
                                  "It is nice to meet you, {}."]))]
            turns += rng.sample([("How are you?", "I am very well, thank you."),
                                 ("What is your name?", "My name is Quipu."),
                                 ("Tell me a joke.", "What has four legs but cannot walk? A table."),
                                 ("I like music.", "How nice! I like stories best."),
                                 ("I live near the sea.", "That must be lovely.")], rng.randint(0, 2))
            turns.append((rng.choice(["What is my name?", "What's my name?", "Do you remember my name?",
                                      "Who am I?"]), rng.choice(["Your name is {}.", "You are {}."])))
            out.append(dict(source="own-names", messages=[
                dict(role=r, content=text.format(name))
                for pair in turns for r, text in zip(("user", "assistant"), pair)]))
    return out


def tale_requests(docs, held):
    """Short tales of the corpus as answers, asked for by their titles."""
    out = []
    for i, d in enumerate(docs[:TALE_DOCS]):
        title, _, body = d.partition("\n\n")
        if i not in held and body and len(title) < 60 and len(d) < 4200:
            name = title.strip(" .'\"").title()
            out.append(dict(source="tales", messages=[
                dict(role="user", content=f"Tell me the tale of {name}."),
                dict(role="assistant", content=body)]))
    return out


# ------------------------------------------------------------------------------ tokens

def train_tokenizer(args):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    docs, chats = load_books(args.corpus), load_chat(args.corpus)
    tok = Tokenizer(models.BPE())
    tok.decoder = decoders.ByteLevel()

    def split_by(pattern):
        tok.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    split_by(SPLIT.replace("{1,3}", ""))      # digits apart, so that no merge joins them
    tok.train_from_iterator(
        docs[:TALE_DOCS] + docs[TALE_DOCS::3] + [m["content"] for c in chats for m in c["messages"]],
        trainers.BpeTrainer(vocab_size=VOCAB - len(SPECIAL), show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    split_by(SPLIT)
    tok.add_special_tokens(SPECIAL)
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{BOS} $A", pair=f"{BOS} $A {BOS}:1 $B:1",
                                      special_tokens=[(BOS, tok.token_to_id(BOS))])])
    tok.save(str(HERE / "tokenizer.json"))
    (HERE / "chat_template.jinja").write_text(TEMPLATE)
    write_json("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOT,
        "pad_token": EOS, "clean_up_tokenization_spaces": False, "model_max_length": CONTEXT,
        "model_input_names": ["input_ids", "attention_mask"],
        "added_tokens_decoder": {str(tok.token_to_id(s)): {
            "content": s, "lstrip": False, "normalized": False, "rstrip": False,
            "single_word": False, "special": True} for s in SPECIAL}})


def write_json(name, value):
    (HERE / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class Coder:
    """Turns documents and conversations to token ids with a weight of the loss for each."""

    def __init__(self):
        from tokenizers import Tokenizer
        self.tok = Tokenizer.from_file(str(HERE / "tokenizer.json"))
        self.bos, self.eos, self.eot = (self.tok.token_to_id(s) for s in (BOS, EOS, EOT))

    def encode(self, texts):
        return [np.array(e.ids, np.uint16)
                for e in self.tok.encode_batch(texts, add_special_tokens=False)]

    def chats(self, chats):
        """Ids and weights of each conversation as its template writes it, without the bos."""
        turns = [(c["source"], m) for c in chats for m in c["messages"]]
        heads = {r: len(self.encode([f"{HEAD}{r}{HEAD_END}\n\n"])[0])
                 for r in ("system", "user", "assistant")}
        ids = iter(self.encode([f"{HEAD}{m['role']}{HEAD_END}\n\n{m['content'].strip()}{EOT}"
                                for _, m in turns]))
        out = []
        for c in chats:
            parts, weights = [], []
            asked = 0.0 if c["source"].startswith("personality") else USER_WEIGHT
            for m in c["messages"]:
                t = next(ids)
                w = np.full(len(t), 1.0 if m["role"] == "assistant" else asked, np.float32)
                w[:heads[m["role"]]] = 0
                parts.append(t)
                weights.append(w)
            out.append((np.concatenate(parts), np.concatenate(weights)))
        return out


class Books:
    """Rows of one bos and ctx tokens out of a shuffled stream of documents."""

    def __init__(self, coder, docs, ctx, rng):
        untitled = [d.partition("\n\n") for d in docs]
        untitled = [body if body and len(title) < 80 else d
                    for d, (title, _, body) in zip(docs, untitled)]
        self.ways = list(zip(coder.encode(docs), coder.encode(untitled)))
        self.coder, self.ctx, self.rng, self.rows, self.epochs = coder, ctx, rng, [], 0

    def refill(self):
        self.epochs += 1
        pieces = []
        for i in self.rng.permutation(len(self.ways)):
            pieces += [[self.coder.bos], self.ways[i][self.rng.integers(2)], [self.coder.eos]]
        stream = np.concatenate(pieces).astype(np.uint16)
        stream = np.roll(stream, self.rng.integers(len(stream)))
        n = max(1, len(stream) // self.ctx)
        rows = np.full((n, self.ctx + 1), self.coder.bos, np.uint16)
        rows[:, 1:] = np.resize(stream, (n, self.ctx))
        one = np.ones(self.ctx + 1, np.float32)
        self.rows = [(rows[i], one) for i in self.rng.permutation(n)]

    def take(self, n):
        while len(self.rows) < n:
            left = self.rows
            self.refill()
            self.rows += left
        out, self.rows = self.rows[:n], self.rows[n:]
        return out


class Chats(Books):
    """Rows of whole conversations, each behind a bos; short ones are joined to longer talks."""

    def __init__(self, coder, chats, ctx, rng):
        self.coder, self.ctx, self.rng, self.rows, self.epochs = coder, ctx, rng, [], 0
        self.chats = coder.chats(chats)
        self.rates = np.array([STORY_RATE if c["source"] == "own-stories"
                               else RATE.get(c["source"], 1) for c in chats])
        self.plain = np.array([c["messages"][0]["role"] == "user" for c in chats])
        self.short = self.plain & np.array([len(t) < 80 for t, _ in self.chats])
        self.system = coder.chats([dict(source="personality", messages=[
            dict(role="system", content=s)]) for s in SYSTEM])

    def refill(self):
        self.epochs += 1
        times = np.floor(self.rates + self.rng.random(len(self.rates))).astype(int)
        order = self.rng.permutation(np.repeat(np.arange(len(times)), times))
        eos = self.coder.eos
        talk, rows = [], []
        for i in order:
            if talk and not (self.short[i] and self.rng.random() < 0.4):
                self.put(talk, rows)
                talk = []
            if not talk and self.plain[i] and self.rng.random() < 0.15:
                talk = [self.system[self.rng.integers(len(self.system))]]
            talk = talk + [self.chats[i]]
            if not self.short[i]:
                self.put(talk, rows)
                talk = []
        if talk:
            self.put(talk, rows)
        self.rows = []
        for r in rows:
            t, w = (np.concatenate([p[k] for p in r]) for k in (0, 1))
            pad = self.ctx + 1 - len(t)
            self.rows.append((np.pad(t, (0, pad), constant_values=eos), np.pad(w, (0, pad))))
        self.rows = [self.rows[i] for i in self.rng.permutation(len(self.rows))]

    def put(self, talk, rows):
        piece = [(np.array([self.coder.bos], np.uint16), np.zeros(1, np.float32))] + talk
        n = sum(len(t) for t, _ in piece)
        if n > self.ctx + 1:
            return
        if not rows or sum(len(t) for t, _ in rows[-1]) + n > self.ctx + 1:
            rows.append([])
        rows[-1] += piece


def held_rows(coder, docs, chats, ctx):
    """Held-out text: each token of a document is foretold once, each conversation on its own."""
    books, talks = [], []
    for t in coder.encode(docs):
        t = np.concatenate([[coder.bos], t, [coder.eos]]).astype(np.uint16)
        for i in range(0, len(t) - 1, ctx):
            books.append((t[i:i + ctx + 1], np.ones(len(t[i:i + ctx + 1]), np.float32)))
    for t, w in coder.chats([dict(c, source="personality") for c in chats]):
        if len(t) <= ctx:
            talks.append((np.concatenate([[coder.bos], t]).astype(np.uint16),
                          np.concatenate([[0], w]).astype(np.float32)))
    return books, talks


# ------------------------------------------------------------------------------ the model

def build(shape, dropout=0.0):
    import torch
    import torch.nn.functional as F
    from torch import nn

    d, kv, heads = shape["hidden"], shape["kv"], shape["heads"]
    head = 64

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            lin = lambda i, o: nn.Linear(i, o, bias=False)
            self.q_proj, self.o_proj = lin(d, heads * head), lin(heads * head, d)
            self.k_proj, self.v_proj = lin(d, kv * head), lin(d, kv * head)
            self.gate_proj, self.up_proj = lin(d, shape["inter"]), lin(d, shape["inter"])
            self.down_proj = lin(shape["inter"], d)
            self.input_layernorm = nn.Parameter(torch.ones(d))
            self.post_attention_layernorm = nn.Parameter(torch.ones(d))

        def forward(self, x, cos, sin):
            B, T, _ = x.shape
            h = F.rms_norm(x, (d,), self.input_layernorm, EPS)
            q = self.q_proj(h).view(B, T, heads, head).transpose(1, 2)
            k = self.k_proj(h).view(B, T, kv, head).transpose(1, 2)
            v = self.v_proj(h).view(B, T, kv, head).transpose(1, 2)
            q, k = turn(q, cos, sin), turn(k, cos, sin)
            if kv != heads:
                k, v = (t.repeat_interleave(heads // kv, 1) for t in (k, v))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            a = self.o_proj(a.transpose(1, 2).reshape(B, T, heads * head))
            x = x + F.dropout(a, dropout, self.training)
            h = F.rms_norm(x, (d,), self.post_attention_layernorm, EPS)
            m = self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))
            return x + F.dropout(m, dropout, self.training)

    def turn(x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed_tokens = nn.Parameter(torch.randn(VOCAB, d) * 0.02)
            self.layers = nn.ModuleList(Layer() for _ in range(shape["layers"]))
            self.norm = nn.Parameter(torch.ones(d))
            for name, p in self.named_parameters():
                if p.ndim == 2 and "proj" in name:
                    last = "o_proj" in name or "down_proj" in name
                    nn.init.normal_(p, 0, 0.02 / (math.sqrt(2 * shape["layers"]) if last else 1))
            f = THETA ** (-torch.arange(0, head, 2) / head)
            angle = torch.outer(torch.arange(CONTEXT), f)
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)

        def forward(self, ids):
            x = F.dropout(F.embedding(ids, self.embed_tokens), dropout, self.training)
            cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
            for layer in self.layers:
                x = layer(x, cos, sin)
            return F.linear(F.rms_norm(x, (d,), self.norm, EPS), self.embed_tokens)

    return Model()


def hf_name(name):
    if name in ("embed_tokens", "norm"):
        return f"model.{name}.weight"
    name = name if name.endswith("weight") else name + ".weight"
    name = re.sub(r"\.([qkvo]_proj)", r".self_attn.\1", name)
    return "model." + re.sub(r"\.((gate|up|down)_proj)", r".mlp.\1", name)


class Muon:
    """Momentum whose update is made orthogonal (Newton-Schulz), matrices of a shape together."""

    def __init__(self, params, lr, decay):
        import torch
        self.torch, self.lr, self.decay, self.scale = torch, lr, decay, 1.0
        groups = {}
        for p in params:
            groups.setdefault(p.shape, []).append(p)
        self.groups = [(ps, torch.zeros(len(ps), *s, device=ps[0].device))
                       for s, ps in groups.items()]

    def step(self):
        torch = self.torch
        for ps, momentum in self.groups:
            g = torch.stack([p.grad for p in ps])
            momentum.lerp_(g, 0.05)
            x = g.lerp_(momentum, 0.95).bfloat16()
            tall = x.shape[1] > x.shape[2]
            x = x.mT if tall else x
            x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
            for _ in range(5):
                a = x @ x.mT
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            x = (x.mT if tall else x).float() * max(1.0, ps[0].shape[0] / ps[0].shape[1]) ** 0.5
            lr = self.lr * self.scale
            torch._foreach_mul_(ps, 1 - lr * self.decay)
            torch._foreach_add_(ps, list(x.unbind()), alpha=-lr)


# ------------------------------------------------------------------------------ training

def evaluate(model, rows, batch, ctx, device):
    """Nats a weighted token over the rows, and the sum of nats."""
    import torch
    import torch.nn.functional as F
    model.eval()
    nats = count = 0.0
    with torch.no_grad():
        for i in range(0, len(rows), batch):
            ids, w = to_device(rows[i:i + batch], device, ctx, batch)
            loss = F.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten(),
                                   reduction="none")
            nats += float((loss * w[:, 1:].flatten()).sum())
            count += float(w[:, 1:].sum())
    model.train()
    return nats / max(count, 1), nats


def to_device(rows, device, ctx, batch):
    """Rows as two tensors, filled up to batch rows of ctx + 1 tokens (weight 0)."""
    import torch
    ids, w = np.zeros((batch, ctx + 1), np.int64), np.zeros((batch, ctx + 1), np.float32)
    for i, (t, v) in enumerate(rows):
        ids[i, :len(t)], w[i, :len(v)] = t, v
    return (torch.from_numpy(ids).to(device, non_blocking=True),
            torch.from_numpy(w).to(device, non_blocking=True))


def prepare(args):
    rng = np.random.default_rng(args.seed)
    coder = Coder()
    docs, chats = load_books(args.corpus), load_chat(args.corpus)
    if args.limit:
        docs = docs[:TALE_DOCS:20] + docs[TALE_DOCS:TALE_DOCS + 3]
        docs, chats = [d[:20000] for d in docs[:20 * args.limit]], chats[:500 * args.limit]
    tales = TALE_DOCS if not args.limit else len(docs) // 2
    held = split_books(docs, chats) if not args.limit else {0, len(docs) - 1}
    chats = [c for c in chats if RATE.get(c["source"], 1)]
    kept, out = [], []
    for c in chats:
        (out if held_chat(c) else kept).append(c)
    story, story_rng = Stories(), random.Random(args.seed)
    asked = {m["content"] for c in out for m in c["messages"] if m["role"] == "user"}
    kept += [c for c in own_chats() + own_sums() if c["messages"][0]["content"] not in asked]
    kept += own_names(story_rng, story) + tale_requests(docs, held)
    kept += [story.write(story_rng) for _ in range(STORIES if not args.limit else 50)]
    sources = {
        "books": Books(coder, [d for i, d in enumerate(docs) if i >= tales and i not in held],
                       args.ctx, rng),
        "tales": Books(coder, [d for i, d in enumerate(docs) if i < tales and i not in held],
                       args.ctx, rng),
        "chat": Chats(coder, kept, args.ctx, rng)}
    held_docs = [docs[i] for i in sorted(held)]
    held_tales = [docs[i] for i in sorted(held) if i < tales]
    books, talks = held_rows(coder, held_docs, out, args.ctx)
    tale_rows, _ = held_rows(coder, held_tales, [], args.ctx)
    sizes = dict(
        train_tokens={k: int(sum(len(a) for a, _ in (s.chats if k == "chat" else s.ways)))
                      for k, s in sources.items()},
        held_titles=[d.split("\n")[0][:60] for d in held_docs], held_chats=len(talks),
        held_book_bytes=sum(len(d.encode()) for d in held_docs),
        held_tale_bytes=sum(len(d.encode()) for d in held_tales),
        held_answer_bytes=sum(len(m["content"].encode()) for c in out for m in c["messages"]
                              if m["role"] == "assistant"))
    return coder, sources, dict(books=books, tales=tale_rows, chat=talks), sizes


def fit(role, args):
    import torch
    import torch.nn.functional as F
    started = time.time()
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    coder, sources, held, sizes = prepare(args)
    print(f"{role}: text ready after {time.time() - started:.0f} s;", json.dumps(sizes), flush=True)

    model = build(SHAPES[role], args.dropout).to(device)
    ema = [p.detach().clone() for p in model.parameters()]
    matrices = [p for n, p in model.named_parameters() if "proj" in n]
    others = [p for n, p in model.named_parameters() if "proj" not in n]
    muon = Muon(matrices, args.lr, args.decay)
    adam = torch.optim.AdamW(others, lr=args.lr_adam, betas=(0.9, 0.95), weight_decay=0.0,
                             fused=device == "cuda")
    fast = torch.compile if device == "cuda" else (lambda f, **k: f)
    run = fast(model, dynamic=False)
    teacher = None
    if getattr(args, "teacher", None):
        teacher = build(SHAPES["teacher"]).to(device)
        teacher.load_state_dict(torch.load(args.teacher, map_location=device))
        teacher = fast(teacher.eval().requires_grad_(False), dynamic=False)

    @fast
    def loss_of(logits, soft, target, w):
        logp = F.log_softmax(logits.float(), -1)
        loss = -logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        ce = (loss * w).sum() / w.sum()
        if soft is None:
            return ce, ce
        kd = -(F.softmax(soft.float(), -1) * logp).sum(-1)
        return (1 - args.mix) * ce + args.mix * (kd * w).sum() / w.sum(), ce

    def amp():
        return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")

    def quick(which, rows):
        with amp():
            return evaluate(run, held[which][:rows], args.batch, args.ctx, device)[0]

    log, seen, clock, spent = [], 0, time.time(), 0.0
    rng = np.random.default_rng(args.seed + 1)
    keep = 1 - 1 / max(10.0, args.steps * 0.02)
    for step in itertools.count():
        # constant after a short warm-up, then a straight line to zero
        done = min(1.0, max(step / args.steps, (time.time() - started) / args.seconds))
        late = max(0.0, (done - args.stable) / (1 - args.stable))
        muon.scale = min(1.0, (step + 1) / 100) * (1 - late)
        for g in adam.param_groups:
            g["lr"] = args.lr_adam * muon.scale
        if step % args.every == 0 or done == 1:
            if device == "cuda":
                torch.cuda.synchronize()
            spent += time.time() - clock
            log.append(dict(step=step, tokens=seen, seconds=round(spent, 1),
                            train=round(float(ce.detach()), 4) if step else None,
                            books=round(quick("books", 4 * args.batch), 4),
                            tales=round(quick("tales", 2 * args.batch), 4),
                            chat=round(quick("chat", 4 * args.batch), 4)))
            print(json.dumps(log[-1]), flush=True)
            clock = time.time()
        if done == 1:
            break
        share = [1 - args.tales - args.chat, args.tales, args.chat]
        last = [1 - args.tales - args.chat_last, args.tales, args.chat_last]
        n = rng.multinomial(args.batch, [a + (b - a) * late for a, b in zip(share, last)])
        rows = [r for k, m in zip(("books", "tales", "chat"), n) for r in sources[k].take(int(m))]
        ids, w = to_device(rows, device, args.ctx, args.batch)
        x, y, w = ids[:, :-1], ids[:, 1:], w[:, 1:]
        with amp():
            soft = None
            if teacher is not None:
                with torch.no_grad():
                    soft = teacher(x)
            loss, ce = loss_of(run(x), soft, y, w)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        with torch.no_grad():
            muon.step()
            adam.step()
            torch._foreach_lerp_(ema, list(model.parameters()), 1 - keep)
        model.zero_grad(set_to_none=True)
        seen += args.batch * args.ctx
    epochs = {k: s.epochs for k, s in sources.items()}
    warm = log[1]      # the steps before it hold the compiling
    speed = (seen - warm["tokens"]) / max(0.1, spent - warm["seconds"])
    print(f"{role}: {seen / 1e6:.1f}M tokens in {spent:.1f} s, {speed:.0f} tokens/s, "
          f"epochs {epochs}", flush=True)
    facts = dict(role=role, device=torch.cuda.get_device_name() if device == "cuda" else "cpu",
                 torch=torch.__version__, shape=SHAPES[role],
                 parameters=sum(p.numel() for p in model.parameters()),
                 tokens_seen=seen, steps=step, seconds=round(spent, 1), tokens_per_second=round(speed),
                 epochs=epochs, text=sizes, log=log,
                 settings={k: v.name if isinstance(v, Path) else v for k, v in vars(args).items()
                           if k not in ("run", "corpus", "out")})
    return model, ema, held, sizes, facts, device


def full_measure(model, held, sizes, args, device):
    """Nats a token and bits a byte on all held-out text, in float32."""
    result = {}
    for which, size in (("books", "held_book_bytes"), ("tales", "held_tale_bytes"),
                        ("chat", "held_answer_bytes")):
        mean, total = evaluate(model, held[which], args.batch, args.ctx, device)
        result[which] = dict(nats_per_token=round(mean, 4),
                             bits_per_byte=round(total / math.log(2) / max(1, sizes[size]), 4))
    return result


def teacher(args):
    import torch
    model, _, held, sizes, facts, device = fit("teacher", args)
    torch.save(model.state_dict(), args.out)
    facts["held_out"] = full_measure(model, held, sizes, args, device)
    print("teacher, held out:", facts["held_out"])
    Path(str(args.out) + ".json").write_text(json.dumps(facts))


def student(args):
    import torch
    from safetensors.torch import load_file, save_file
    model, ema, held, sizes, facts, device = fit("student", args)
    torch.set_float32_matmul_precision("highest")
    final = [p.detach().clone() for p in model.parameters()]
    best = None
    for label, weights in (("final", final), ("average", ema)):
        for p, v in zip(model.parameters(), weights):
            p.data.copy_(v.bfloat16())
        facts["held_out_" + label] = got = full_measure(model, held, sizes, args, device)
        print(f"{label} weights in BF16:", got, flush=True)
        score = got["books"]["nats_per_token"] + got["chat"]["nats_per_token"]
        if best is None or score < best[0]:
            best = (score, label, [p.detach().clone() for p in model.parameters()])
    facts["exported"] = best[1]
    for p, v in zip(model.parameters(), best[2]):
        p.data.copy_(v)
    save_file({hf_name(n): p.detach().bfloat16().cpu().contiguous()
               for n, p in model.named_parameters()},
              str(HERE / "model.safetensors"), metadata={"format": "pt"})
    back = load_file(str(HERE / "model.safetensors"))
    for n, p in model.named_parameters():
        p.data.copy_(back[hf_name(n)])
    facts["held_out"] = full_measure(model, held, sizes, args, device)
    if args.teacher:
        facts["teacher"] = json.loads(Path(str(args.teacher) + ".json").read_text())
    write_json("metrics.json", facts)
    shape, coder = SHAPES["student"], Coder()
    write_json("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": VOCAB, "hidden_size": shape["hidden"], "intermediate_size": shape["inter"],
        "num_hidden_layers": shape["layers"], "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv"], "head_dim": 64, "hidden_act": "silu",
        "max_position_embeddings": CONTEXT, "rope_theta": THETA, "rope_scaling": None,
        "rms_norm_eps": EPS, "attention_bias": False, "mlp_bias": False,
        "attention_dropout": 0.0, "initializer_range": 0.02, "tie_word_embeddings": True,
        "bos_token_id": coder.bos, "eos_token_id": [coder.eos, coder.eot],
        "pad_token_id": coder.eos, "torch_dtype": "bfloat16", "use_cache": True})
    write_json("generation_config.json", {
        "bos_token_id": coder.bos, "eos_token_id": [coder.eos, coder.eot],
        "pad_token_id": coder.eos, "do_sample": True, "temperature": 0.6, "top_p": 0.9,
        "repetition_penalty": 1.1})
    plot(facts)


def plot(facts):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "quipu"
    import matplotlib.pyplot as plt
    fig, ax = plt.subplots(figsize=(7, 4))
    tokens = [e["tokens"] / 1e6 for e in facts["log"]]
    for key, label in (("train", "training batches (mix of all)"), ("books", "held-out books and tales"),
                       ("tales", "held-out tales alone"), ("chat", "held-out chat (answers)")):
        ax.plot(tokens[1:], [e[key] for e in facts["log"]][1:], label=label, linewidth=1.3)
    ax.set(xlabel="tokens seen, millions", ylabel="loss, nats a token", ylim=(None, 5))
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    fig.tight_layout()
    fig.savefig(HERE / "training.svg", metadata={"Date": None})


# ------------------------------------------------------------------------------ the report

RAW = ["Once upon a time", "Once upon a time there was a little girl who lived",
       "The old man looked at the sea and", "It was a cold and stormy night, and"]
CHAT = [
    "Hello!", "Hi, how are you today?", "Who are you?", "What is your name?", "What can you do?",
    "Good morning!", "I am feeling sad today.", "Tell me a joke.", "Thank you very much!",
    "Do you like music?", "What is the capital of France?", "What is the capital of Japan?",
    "What language do people speak in Brazil?", "On which continent is Kenya?",
    "What is 7 plus 5?", "What is 12 minus 4?", "How do you spell \"river\"?",
    "What is the opposite of \"hot\"?", "What is the plural of \"child\"?",
    "What colour is the sky?", "How many legs does a spider have?", "What do bees make?",
    "Which day comes after Monday?", "What is a young dog called?",
    "Put these words in alphabetical order: tree, apple, house.",
    "Tell me a story.", "Tell me a story about a fox.", "Tell me a story about a brave mouse.",
    "Tell me a story about a dragon and a princess.", "Tell me a story about a robot.",
    "Write a short story about a lonely whale.", "Can you tell me a story about a king?",
    "Tell me a short fable.", "Tell me a fable about the Lion and the Mouse.",
    "Tell me a fairy tale.", "Write a short poem.", "Why is the sea salty?",
    "What should I have for dinner?", "Do you believe in ghosts?", "Goodbye!",
]
TALKS = [["My name is Anna.", "What is my name?", "Tell me a story about a cat.", "Thank you!"],
         ["Hello!", "I am 12 years old and I live in Rome.", "Where do I live?", "How old am I?"]]


def report(args):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    tok = AutoTokenizer.from_pretrained(str(HERE))
    model = AutoModelForCausalLM.from_pretrained(str(HERE), dtype=torch.float32).eval()
    gen = GenerationConfig.from_pretrained(str(HERE))
    eot = tok.convert_tokens_to_ids(EOT)
    settings = {k: v for k, v in gen.to_diff_dict().items() if k in ("temperature", "top_p", "repetition_penalty")}

    def sample(prompts, seed, limit):
        """Continuations of several prompts of ids, written in one batch under one seed."""
        torch.manual_seed(seed)
        batch = tok.pad({"input_ids": prompts}, padding_side="left", return_tensors="pt")
        gen.max_new_tokens = limit
        out = model.generate(**batch, generation_config=gen)[:, batch.input_ids.shape[1]:].tolist()
        stop = lambda ids: next((i + 1 for i, t in enumerate(ids) if t in gen.eos_token_id), len(ids))
        return [ids[:stop(ids)] for ids in out]

    def render(messages, prompt=True):
        return tok.apply_chat_template(messages, add_generation_prompt=prompt, tokenize=False)

    def encode_chat(messages):
        return tok(render(messages), add_special_tokens=False).input_ids

    # what the template writes must be what training read
    talk = [dict(role="system", content=SYSTEM[0]), dict(role="user", content=CHAT[0]),
            dict(role="assistant", content="Good day!"), dict(role="user", content=CHAT[1])]
    coder = Coder()
    trained = coder.chats([dict(source="check", messages=talk)])[0][0].tolist()
    assert tok(render(talk, False), add_special_tokens=False).input_ids == [coder.bos] + trained

    lines = ["# Samples", "", f"Written by `train.py report` with transformers in float32 on the CPU, "
             f"settings of generation_config.json ({settings}), the prompts of a section "
             "in one batch under one seed; nothing was picked.",
             "", "## Raw text, up to 200 tokens, seed 0"]
    for prompt, ids in zip(RAW, sample([tok(p).input_ids for p in RAW], 0, 200)):
        lines += ["", f"Prompt `{prompt}`:", "", *quote(prompt + tok.decode(ids, skip_special_tokens=True))]
    ended, chats, runs = 0, [], 0
    for seed in range(args.seeds):
        asked = [encode_chat([dict(role="user", content=p)]) for p in CHAT]
        for prompt, ids in zip(CHAT, sample(asked, seed, 300)):
            runs += 1
            ended += ids[-1] == eot
            if seed == 0:
                chats += ["", f"**{prompt}**", "", *quote(tok.decode(ids, skip_special_tokens=True))]
                if ids[-1] != eot:
                    chats += ["", f"(not ended after {len(ids)} tokens)"]
    lines += ["", "## Chat, up to 300 tokens, seed 0", "",
              f"Over {args.seeds} seeds, {ended} of {runs} answers ended by themselves with {EOT}."]
    lines += chats + ["", "## Longer talks, seed 0"]
    for talk in TALKS:
        messages = []
        for q in talk:
            messages.append(dict(role="user", content=q))
            a = tok.decode(sample([encode_chat(messages)], 0, 300)[0], skip_special_tokens=True)
            messages.append(dict(role="assistant", content=a))
            lines += ["", f"**{q}**", "", *quote(a)]
        lines.append("\n---")
    (HERE / "samples.md").write_text("\n".join(lines[:-1] + [""]), encoding="utf-8")
    print(f"{ended} of {runs} answers ended by themselves")

    def greedy(ids, n):
        new, gaps = [], []
        with torch.no_grad():
            for _ in range(n):
                top = model(torch.tensor([ids + new])).logits[0, -1].topk(2)
                new.append(int(top.indices[0]))
                gaps.append(round(float(top.values[0] - top.values[1]), 4))
                if new[-1] in gen.eos_token_id:
                    break
        return dict(greedy=new, gaps=gaps, continuation=tok.decode(new))

    plain = ["Once upon a time", "The king said to the queen:", "In the year 1850, 37 ships",
             "  Two spaces,\ttabs\n\nand lines; it's don't DON'T 12345!", "naïve café — “日本” 🙂"]
    goldens = dict(
        made="train.py report: transformers, float32 on the CPU, weights as stored in BF16; "
             "gaps: highest logit less the second, a step",
        prompts=[dict(text=p, ids=tok(p).input_ids,
                      ids_without_special=tok(p, add_special_tokens=False).input_ids,
                      **greedy(tok(p).input_ids, 40)) for p in plain],
        chats=[dict(messages=m, rendered=render(m), ids=encode_chat(m), **greedy(encode_chat(m), 120))
               for m in ([dict(role="user", content="What is the capital of France?")],
                         [dict(role="system", content=SYSTEM[0]),
                          dict(role="user", content="Hello!"),
                          dict(role="assistant", content="Hello! How can I help you today?"),
                          dict(role="user", content="Tell me a story about a fox.")])])
    text = json.dumps(goldens, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+([-\d.,\s]+?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)
    (HERE / "goldens.json").write_text(text + "\n", encoding="utf-8")


def quote(text):
    return ["> " + line if line else ">" for line in text.strip().split("\n")]


def main():
    ap = argparse.ArgumentParser(description="Makes quipu's demo model; the story stands on top of the file.")
    sub = ap.add_subparsers(dest="command", required=True)
    for name, run in (("tokenizer", train_tokenizer), ("teacher", teacher), ("student", student),
                      ("report", report)):
        p = sub.add_parser(name)
        p.set_defaults(run=run)
        if name == "report":
            p.add_argument("--seeds", type=int, default=3, help="runs of all chat prompts")
            continue
        p.add_argument("--corpus", type=Path, default=HERE.parents[2] / "shared" / "corpus")
        if name == "tokenizer":
            continue
        big = name == "teacher"
        p.add_argument("--steps", type=int, default=2800 if big else 4000)
        p.add_argument("--batch", type=int, default=32, help="rows a step")
        p.add_argument("--seconds", type=float, default=1e9, help="end by then, with fewer steps")
        p.add_argument("--ctx", type=int, default=CONTEXT, help="tokens a row")
        p.add_argument("--lr", type=float, default=0.02, help="Muon")
        p.add_argument("--lr-adam", type=float, default=0.003)
        p.add_argument("--decay", type=float, default=0.1, help="Muon's weight decay")
        p.add_argument("--dropout", type=float, default=0.2 if big else 0.05)
        p.add_argument("--stable", type=float, default=0.4, help="share of the steps before the lr falls")
        p.add_argument("--tales", type=float, default=0.15 if big else 0.18, help="share of rows out of tales")
        p.add_argument("--chat", type=float, default=0.12, help="share of rows of chat")
        p.add_argument("--chat-last", type=float, default=0.3 if big else 0.35, help="the same at the end")
        p.add_argument("--every", type=int, default=200, help="steps between two looks at held-out text")
        p.add_argument("--limit", type=int, default=0, help="for a try-out: use little text")
        p.add_argument("--seed", type=int, default=1)
        if big:
            p.add_argument("--out", type=Path, default=Path("teacher.pt"))
        else:
            p.add_argument("--teacher", type=Path, help="checkpoint to learn from")
            p.add_argument("--mix", type=float, default=0.7, help="share of the teacher in the loss")
    args = ap.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
