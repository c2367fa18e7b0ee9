// words.test.ts — metrics, numbers in words, errors in words, fields of the server's description.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldsOf } from "../src/fields";
import { bytes, dayOf, plural, rate, seconds } from "../src/format";
import { readMetrics } from "../src/metrics";
import { explain } from "../src/problems";

test("metrics are summed over their labels, buckets left out", () => {
    const m = readMetrics(
        '# HELP a b\n# TYPE a counter\na{x="1"} 2\na{x="2 3"} 3.5\nb 1e3\nc_bucket{le="1"} 9\nbad line\nd NaN\n',
    );
    assert.deepEqual(
        [...m],
        [
            ["a", 5.5],
            ["b", 1000],
        ],
    );
});

test("numbers", () => {
    assert.deepEqual([0, 0.25, 9.87, 12.34, 481.2].map(rate), ["0", "0.25", "9.87", "12.3", "481"]);
    assert.deepEqual([0.0001, 0.05, 0.4, 12, 75, 125].map(seconds), [
        "1 ms",
        "50 ms",
        "0.4 s",
        "12 s",
        "75 s",
        "2 min 5 s",
    ]);
    assert.deepEqual([0, 999, 1500, 22e6, 4.5e9].map(bytes), ["0 bytes", "999 bytes", "1.5 kB", "22 MB", "4.5 GB"]);
    assert.deepEqual(
        [1, 2, 1234].map(n => plural(n, "token")),
        ["1 token", "2 tokens", "1,234 tokens"],
    );
});

test("days", () => {
    const noon = new Date(2026, 5, 17, 12).getTime(),
        hour = 36e5;
    assert.deepEqual(
        [1, 13, 37, 80, 400].map(h => dayOf(noon - h * hour, noon)),
        ["Today", "Yesterday", "This week", "This week", "Earlier"],
    );
});

test("every error has a title, a thing to do and the right button", () => {
    const fault = (status: number, code = ""): ReturnType<typeof explain> =>
        explain({ status, code, message: "", retryAfter: null });
    assert.equal(fault(0).action, "retry");
    assert.equal(fault(401).action, "key");
    assert.equal(fault(403, "admin_required").action, "key");
    assert.equal(fault(403, "bad_host").action, "none");
    assert.match(fault(503, "model_loading").title, /loading/);
    assert.match(fault(503, "model_not_loaded").advice, /-m FOLDER/);
    assert.match(fault(400, "context_length_exceeded").title, /too long/);
    assert.equal(fault(400).action, "settings");
    assert.equal(fault(500, "engine_error").action, "retry");
    for (const status of [0, 400, 401, 403, 404, 413, 429, 500, 503]) assert.ok(fault(status).advice.length > 10);
});

test("fields of the description", () => {
    const fields = fieldsOf({
        components: {
            schemas: {
                ChatRequest: {
                    properties: {
                        a: { type: "number", minimum: 0, maximum: 2, default: 1 },
                        b: { type: "boolean" },
                        c: { type: "number", "x-unsupported": true },
                    },
                },
            },
        },
    });
    assert.deepEqual(fields.get("a"), { type: "number", lowest: 0, highest: 2, standard: 1, isBuilt: true });
    assert.equal(fields.get("b")!.standard, null);
    assert.equal(fields.get("c")!.isBuilt, false);
    assert.equal(fieldsOf({}).size, 0);
});
