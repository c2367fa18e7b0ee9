#!/usr/bin/env python3
"""Texts as vectors over HTTP: every form of input and output, many at once, clients that leave, what is refused.

usage: server_embeddings_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import base64
import json
import math
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import unittest

from server_kit import ADMIN, API, DEMO, Server, is_quiet, run, wait_until

PROGRAM = ""
TEXTS = ["Once upon a time there was a little dog.", "The cat sat on the mat.", "Hello"]


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / length(a) / length(b)


class Embeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, "--max-queue", "100")

    @classmethod
    def tearDownClass(cls):
        cls.server.end_well()

    def vectors(self, path="/v1/embeddings", **fields):
        answer = self.server.json("POST", path, fields)
        self.assertEqual([d["index"] for d in answer["data"]], list(range(len(answer["data"]))))
        return [d["embedding"] for d in answer["data"]]

    def test_shape(self):
        answer = self.server.json("POST", "/v1/embeddings", {"input": TEXTS, "model": "demo", "user": "me"})
        self.assertEqual(set(answer), {"object", "data", "model", "usage"})
        self.assertEqual((answer["object"], answer["model"]), ("list", "demo"))
        n = sum(self.server.json("POST", "/v1/token/encode", {"text": t})["length"] for t in TEXTS)
        self.assertEqual(answer["usage"], {"prompt_tokens": n, "total_tokens": n})
        for i, item in enumerate(answer["data"]):
            self.assertEqual((item["object"], item["index"]), ("embedding", i))
            self.assertAlmostEqual(length(item["embedding"]), 1, places=5)
        a, b, _ = (d["embedding"] for d in answer["data"])
        self.assertLess(cosine(a, b), 0.999)

    def test_forms_of_input_are_one(self):
        ids = [self.server.json("POST", "/v1/token/encode", {"text": t})["tokens"] for t in TEXTS]
        wanted = self.vectors(input=TEXTS)
        self.assertEqual(self.vectors(input=ids), wanted)
        for i, text in enumerate(TEXTS):
            self.assertEqual(self.vectors(input=text), [wanted[i]])
            self.assertEqual(self.vectors(input=[text]), [wanted[i]])
            self.assertEqual(self.vectors(input=ids[i]), [wanted[i]])
        for path in ("/embeddings", "/api/extra/embeddings"):
            self.assertEqual(self.vectors(path, input=TEXTS), wanted)
        found = self.server.json("POST", "/embedding", {"content": TEXTS})
        self.assertEqual(found, [{"index": i, "embedding": [v]} for i, v in enumerate(wanted)])

    def test_forms_of_output(self):
        whole = self.vectors(input=TEXTS)
        for n in (1, 7, 64):
            for short, vector in zip(self.vectors(input=TEXTS, dimensions=n), whole):
                self.assertEqual(len(short), n)
                self.assertAlmostEqual(length(short), 1, places=5)
                self.assertAlmostEqual(cosine(short, vector[:n]), 1, places=5)
        for n in (len(whole[0]), 1, 2, 3, 16):  # all three ends of base64
            coded = self.vectors(input=TEXTS, encoding_format="base64", dimensions=n)
            plain = self.vectors(input=TEXTS, encoding_format="float", dimensions=n)
            for text, vector in zip(coded, plain):
                read = struct.unpack("<%df" % n, base64.b64decode(text, validate=True))
                for x, y in zip(read, vector):
                    self.assertEqual(x, struct.unpack("<f", struct.pack("<f", y))[0])

    def test_more_texts_than_the_queue_holds(self):
        texts = ["Number %d of many." % i for i in range(150)]
        many = self.vectors(input=texts)
        for i in (0, 63, 64, 127, 128, 149):
            self.assertEqual(self.vectors(input=texts[i])[0], many[i])
        self.assertEqual(len(set(map(tuple, many))), len(texts))
        status, _, data = self.server.post("/v1/embeddings", {"input": ["x"] * 2049})
        self.assertEqual((status, json.loads(data)["error"]["param"]), (400, "input"))

    def test_beside_answers(self):
        """Vectors while answers are written, and answers while vectors are made: as alone."""
        ask = {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0}
        alone = self.server.json("POST", "/v1/completions", ask)["choices"][0]["text"]
        wanted, found = self.vectors(input=TEXTS), []
        threads = [threading.Thread(target=lambda: found.append(self.vectors(input=TEXTS))) for _ in range(4)]
        for t in threads:
            t.start()
        self.assertEqual(self.server.json("POST", "/v1/completions", ask)["choices"][0]["text"], alone)
        for t in threads:
            t.join()
        for vectors in found:
            for a, b in zip(vectors, wanted):
                self.assertGreater(cosine(a, b), 0.9999)

    def test_the_client_leaves(self):
        before = self.server.metrics()['quipu_cancelled_total{cause="disconnect"}']
        texts = [("word %d " % i) * 200 for i in range(400)]
        s = self.server.open_stream("/v1/embeddings", input=texts)
        wait_until(lambda: self.server.metric("requests_running") > 0)
        s.close()
        wait_until(lambda: is_quiet(self.server), 30)
        wait_until(lambda: self.server.json("GET", "/v1/jobs", key=ADMIN)["data"] == [], 30)
        self.assertEqual(self.server.metrics()['quipu_cancelled_total{cause="disconnect"}'], before + 1)
        self.assertEqual(len(self.vectors(input=TEXTS)), 3)

    def test_one_request_can_be_cancelled(self):
        texts, got = [("word %d " % i) * 200 for i in range(400)], []
        ask = lambda: got.append(self.server.post("/v1/embeddings", {"input": texts}, headers={"X-Request-Id": "gone"}))
        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: self.server.ask("DELETE", "/v1/jobs/gone", key=API)[0] == 200)
        thread.join()
        self.assertEqual(got[0][0], 400, got[0][2])
        self.assertIn("was cancelled", json.loads(got[0][2])["error"]["message"])

    def test_refused(self):
        long = "word " * 3000
        cases = [({}, "input", "missing"), ({"input": None}, "input", "missing"), ({"input": []}, "input", "empty"),
                 ({"input": 3}, "input", "an integer"), ({"input": {}}, "input", "an object"),
                 ({"input": ["a", 3]}, "input[1]", "a string"), ({"input": [[1], "a"]}, "input[1]", "array of ids"),
                 ({"input": [[1], []]}, "input[1]", "empty"), ({"input": [[1, -2]]}, "input[0][1]", "-2"),
                 ({"input": [1, 1 << 40]}, "input[1]", "6143"), ({"input": [1.5]}, "input[0]", "an integer"),
                 ({"input": "a", "dimensions": 0}, "dimensions", "at least 1"),
                 ({"input": "a", "dimensions": 257}, "dimensions", "256"),
                 ({"input": "a", "encoding_format": "int8"}, "encoding_format", "float and base64"),
                 ({"input": "a", "embd_normalize": 1}, "embd_normalize", "Euclidean"),
                 ({"input": ["a", long]}, "input", "input[1]")]
        for body, param, part in cases:
            with self.subTest(str(body)[:60]):
                status, _, data = self.server.post("/v1/embeddings", body)
                error = json.loads(data)["error"]
                self.assertEqual(status, 400, data)
                self.assertTrue(error["param"].startswith(param) or param.startswith(error["param"]), error)
                self.assertIn(part, error["message"])
        self.assertEqual(json.loads(self.server.post("/v1/embeddings", {"input": long})[2])["error"]["code"],
                         "context_length_exceeded")

    def test_no_other_model_and_no_ranking(self):
        self.assertEqual(self.server.json("GET", "/v1/model/embedding")["id"], "demo")
        self.assertEqual([m["id"] for m in self.server.json("GET", "/v1/model/embedding/list")["data"]], ["demo"])
        for path, key in (("/v1/model/embedding/load", ADMIN), ("/rerank", API), ("/v1/rerank", API)):
            status, headers, data = self.server.post(path, {}, key)
            self.assertEqual((status, headers["x-should-retry"]), (501, "false"), data)


class Pooling(unittest.TestCase):
    """What makes the vector: the setting, or what sentence-transformers wrote beside the model."""

    def first(self, model, *options):
        server = Server(PROGRAM, *options, model=model)
        try:
            return server.json("POST", "/v1/embeddings", {"input": "The cat sat on the mat."})["data"][0]["embedding"]
        finally:
            server.close()

    def test_pooling(self):
        mean, last = self.first(DEMO, "--embedding-pooling", "mean"), self.first(DEMO, "--embedding-pooling", "last")
        self.assertLess(cosine(mean, last), 0.99)
        self.assertEqual(self.first(DEMO), mean)
        folder = tempfile.mkdtemp(prefix="quipu-test-")
        try:
            for name in os.listdir(DEMO):
                os.symlink(os.path.join(DEMO, name), os.path.join(folder, name))
            os.mkdir(os.path.join(folder, "1_Pooling"))
            path = os.path.join(folder, "1_Pooling", "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, file)
            self.assertEqual(self.first(folder), last)
            self.assertEqual(self.first(folder, "--embedding-pooling", "mean"), mean)
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"pooling_mode_cls_token": True}, file)
            ended = subprocess.run([PROGRAM, "serve", "--port", "0", "--disable-auth", "-m", folder], timeout=120,
                                   capture_output=True, text=True, check=False)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn("embedding_pooling", ended.stderr)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    run(globals())
