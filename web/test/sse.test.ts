// sse.test.ts — the parser of server-sent events: every way to cut a stream into pieces gives the same events.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SseParser, type SseEvent } from "../src/sse";

function parse(pieces: string[]): SseEvent[] {
    const parser = new SseParser();
    return pieces.flatMap(p => parser.push(p));
}

const data = (text: string): SseEvent => ({ name: "message", data: text });

const CASES: [string, string, SseEvent[]][] = [
    ["one event", "data: a\n\n", [data("a")]],
    ["carriage returns", "data: a\r\rdata: b\r\r\n", [data("a"), data("b")]],
    ["both", "data: a\r\n\r\ndata: b\r\n\r\n", [data("a"), data("b")]],
    ["lines of data are joined", "data: a\ndata: b\n\n", [data("a\nb")]],
    ["only one blank is taken", "data:  a\n\ndata:b\n\n", [data(" a"), data("b")]],
    ["comments are nothing", ": ping\n\ndata: a\n: x\n\n", [data("a")]],
    ["names", "event: delta\ndata: a\n\ndata: b\n\n", [{ name: "delta", data: "a" }, data("b")]],
    ["an event without data is none", "event: x\n\ndata: a\n\n", [data("a")]],
    ["empty data is data", "data\n\ndata:\n\n", [data(""), data("")]],
    ["a byte order mark", "\uFEFFdata: a\n\n", [data("a")]],
    ["unknown fields", "id: 7\nretry: 9\nfoo\ndata: a\n\n", [data("a")]],
    ["not ended is not an event", "data: a\n\ndata: b\n", [data("a")]],
    ["colons in data", 'data: {"a":"b: c"}\n\n', [data('{"a":"b: c"}')]],
];

for (const [name, text, expected] of CASES) {
    test(name + ", whole", () => assert.deepEqual(parse([text]), expected));
    test(name + ", by character", () => assert.deepEqual(parse([...text]), expected));
    test(name + ", cut at every place", () => {
        for (let i = 0; i <= text.length; i++)
            assert.deepEqual(parse([text.slice(0, i), text.slice(i)]), expected, "cut at " + i);
    });
}
