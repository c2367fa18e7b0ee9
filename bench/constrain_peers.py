#!/usr/bin/env python3
"""What a constraint costs beside llguidance and XGrammar from PyPI: the same schemas, texts and vocabulary, one
thread, in one run.

    pip install llguidance tokenizers xgrammar
    python3 bench/constrain_peers.py BENCH_CONSTRAIN TOKENIZER_FOLDER SCHEMAS.jsonl [MOST_SCHEMAS [EVERY]]

BENCH_CONSTRAIN is the program made of bench/constrain.c; it runs before and after the peers, so that a change of the
machine's speed shows. A peer that is not installed is left out, and told. XGrammar compiles for seconds, so with
EVERY only every so many-th schema is asked of all, and one that takes over 4 s is given up. Prints one JSON object a
run, and one for each peer with the masks of just those schemas that both took. Microseconds at the 50th, 95th, 99th
and 100th percentile; every schema with caches of its own. `wrong` are valid texts that were refused.
"""
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
PATIENCE = 4  # seconds for a schema and its texts


def spread(samples):
    """The percentiles of some times in seconds, as microseconds."""
    samples = sorted(samples) or [0]
    return {"n": len(samples), **{name: round(samples[int((len(samples) - 1) * share)] * 1e6, 2) for name, share in
                                  (("p50", .5), ("p95", .95), ("p99", .99), ("p99.9", .999), ("max", 1))}}


class LLGuidance:
    """One schema at a time through llguidance."""
    name = "llguidance"

    def __init__(self, base):
        import llguidance
        import llguidance.numpy
        self.lib = llguidance
        self.tokenizer = llguidance.LLTokenizer(base.to_str())
        self.bits = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def compile(self, schema):
        grammar = self.lib.LLMatcher.grammar_from_json_schema(schema, defaults={"whitespace_flexible": True})
        first = self.lib.LLMatcher(self.tokenizer, grammar)
        return None if first.get_error() else grammar

    def matcher(self, grammar):
        return self.lib.LLMatcher(self.tokenizer, grammar)

    def mask(self, matcher):
        self.lib.numpy.fill_next_token_bitmask(matcher, self.bits, 0)

    @staticmethod
    def accept(matcher, token):
        return matcher.consume_token(token)

    @staticmethod
    def is_complete(matcher):
        return matcher.is_accepting()


class XGrammar:
    """One schema at a time through XGrammar. Not strict: what a schema does not forbid is allowed."""
    name = "xgrammar"

    def __init__(self, base):
        import xgrammar
        words = [word for word, _ in sorted(base.get_vocab().items(), key=lambda pair: pair[1])]
        self.lib = xgrammar
        ends = [i for i, word in enumerate(words) if word in ("<|endoftext|>", "</s>", "<|end_of_text|>")]
        is_bytes = "Ġ" in base.get_vocab()
        kind = xgrammar.VocabType.BYTE_LEVEL if is_bytes else xgrammar.VocabType.BYTE_FALLBACK
        self.vocabulary = xgrammar.TokenizerInfo(words, kind, stop_token_ids=ends)
        self.bits = xgrammar.allocate_token_bitmask(1, len(words))

    def compile(self, schema):
        compiler = self.lib.GrammarCompiler(self.vocabulary, max_threads=1, cache_enabled=False)
        try:
            return compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=False)
        except Exception:  # pylint: disable=broad-exception-caught  (whatever it refuses by)
            return None

    def matcher(self, grammar):
        return self.lib.GrammarMatcher(grammar, terminate_without_stop_token=False)

    def mask(self, matcher):
        matcher.fill_next_token_bitmask(self.bits, 0)

    @staticmethod
    def accept(matcher, token):
        return matcher.accept_token(token)

    @staticmethod
    def is_complete(matcher):
        return matcher.is_completed()


def follow(peer, matcher, ids, masks, accepts):
    """One text, token by token; whether it was accepted."""
    for token in ids:
        begin = time.perf_counter()
        peer.mask(matcher)
        masks.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        fine = peer.accept(matcher, token)
        accepts.append(time.perf_counter() - begin)
        if not fine:
            return False
    return peer.is_complete(matcher)


def try_schema(peer, base, record):
    """The samples of one schema."""
    schema = json.dumps(record["schema"])
    begin = time.perf_counter()
    grammar = peer.compile(schema)
    one = {"compile": [time.perf_counter() - begin], "mask": [], "accept": [], "matcher": [], "refused": 0, "wrong": 0}
    if grammar is None:
        return {**one, "compile": [], "refused": 1}
    for text in record["valid"]:
        begin = time.perf_counter()
        matcher = peer.matcher(grammar)
        one["matcher"].append(time.perf_counter() - begin)
        ids = base.encode(text, add_special_tokens=False).ids
        one["wrong"] += not follow(peer, matcher, ids, one["mask"], one["accept"])
    return one


def begin_worker(peer, base, records):
    """A child that tries schema after schema; what it can be read from."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, os.fdopen(read, "rb", 0)  # what is behind a line stays in the pipe, where select sees it
    with os.fdopen(write, "w") as out:
        for record in records:
            print(json.dumps(try_schema(peer, base, record)), file=out, flush=True)
    os._exit(0)


def measure(make, folder, path):
    """Times one peer; a schema that takes too long is given up, with the child that is at it."""
    import tokenizers
    base = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
    begin = time.perf_counter()
    peer = make(base)
    vocabulary = time.perf_counter() - begin
    records = [json.loads(line) for line in open(path).read().splitlines()]
    sums = {"compile": [], "mask": [], "accept": [], "matcher": [], "refused": 0, "wrong": 0}
    done = given_up = 0
    each = [None] * len(records)
    while done < len(records):
        child, lines = begin_worker(peer, base, records[done:])
        while done < len(records):
            done += 1
            line = lines.readline() if select.select([lines], [], [], PATIENCE)[0] else b""
            if not line:  # or it has crashed
                given_up += 1
                break
            one = json.loads(line)
            each[done - 1] = one["mask"] if not one["refused"] else None
            for name, value in one.items():
                sums[name] += value
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    print(json.dumps({"peer": peer.name, "vocabulary_ms": round(vocabulary * 1e3, 1),
                      **{name + "_us": spread(sums[name]) for name in ("compile", "mask", "accept", "matcher")},
                      "refused": sums["refused"], "wrong": sums["wrong"], "given_up": given_up}), flush=True)
    return each


def compare(name, ours, theirs):
    """The masks of the schemas that both took: ours in microseconds already."""
    both = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a is not None and b is not None]
    print(json.dumps({"beside": name, "schemas": len(both),
                      "our_mask_us": spread([us / 1e6 for i in both for us in ours[i]]),
                      "their_mask_us": spread([s for i in both for s in theirs[i]])}), flush=True)


def main():
    """Ours, the peers, ours again."""
    program, folder, path = sys.argv[1:4]
    most = int(sys.argv[4]) if len(sys.argv) > 4 else 1000000
    every = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    with tempfile.TemporaryDirectory() as room:
        chosen, masks = room + "/schemas.jsonl", room + "/masks.jsonl"
        with open(chosen, "w") as out:
            out.write("\n".join(open(path).read().splitlines()[::every][:most]) + "\n")
        for turn in range(2):
            print(subprocess.run([program, folder, chosen, str(most), masks], check=True, capture_output=True,
                                 text=True).stdout, end="", flush=True)
            ours = [json.loads(line) for line in open(masks)]
            for make in (LLGuidance, XGrammar) if turn == 0 else ():
                if importlib.util.find_spec(make.name):
                    compare(make.name, ours, measure(make, folder, chosen))
                else:
                    print(json.dumps({"peer": make.name, "left_out": "not installed"}), flush=True)


main()
