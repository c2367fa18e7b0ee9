// transfer.test.ts — files of conversations: what is written is read again; what is wrong is refused in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readFile, writeFile } from "../src/transfer";
import { append, newConversation, newMessage, path } from "../src/tree";
import type { Conversation } from "../src/types";

function sample(): Conversation {
    const c = newConversation("be kind"),
        q = newMessage("user", null, "hello"),
        a = newMessage("assistant", q.id, "first");
    const b = newMessage("assistant", q.id, "second");
    b.reasoning = "hm";
    b.figures = {
        promptTokens: 1,
        cachedTokens: 2,
        tokens: 3,
        reasoningTokens: 4,
        promptSeconds: null,
        firstSeconds: 0.5,
        perSecond: 6,
        seconds: 7,
    };
    b.fault = { status: 503, code: "model_loading", message: "m", retryAfter: 2 };
    for (const m of [a, b]) m.ending = "stop";
    for (const m of [q, a, b]) append(c, m);
    return c;
}

const without = (c: Conversation): object =>
    JSON.parse(JSON.stringify(c, (key, v) => (key === "id" || key === "parent" || key === "chosen" ? undefined : v)));

test("a round trip", () => {
    const before = sample(),
        [after] = readFile(writeFile([before]));
    assert.deepEqual(without(after!), without(before));
    assert.deepEqual(
        path(after!).map(m => m.text),
        ["hello", "second"],
    );
    assert.notEqual(after!.id, before.id);
    assert.notEqual(after!.messages[0]!.id, before.messages[0]!.id);
});

const REFUSED: [string, RegExp][] = [
    ["", /not JSON/],
    ["[]", /not an object/],
    ["{}", /not an export/],
    ['{"format":"quipu-chat","version":2}', /version 2/],
    ['{"format":"quipu-chat","version":1,"conversations":{}}', /not a list/],
    ['{"format":"quipu-chat","version":1,"conversations":[1]}', /conversation 1 is not an object/],
    [
        '{"format":"quipu-chat","version":1,"conversations":[{"messages":[{"id":"a","role":"system"}]}]}',
        /message 1: role/,
    ],
    [
        '{"format":"quipu-chat","version":1,"conversations":[{"messages":[{"id":"a","role":"user","parent":"a"}]}]}',
        /parent/,
    ],
    [
        '{"format":"quipu-chat","version":1,"conversations":[{"messages":[{"id":"a","role":"user"},{"id":"a","role":"user"}]}]}',
        /twice/,
    ],
    ['{"format":"quipu-chat","version":1,"conversations":[{"messages":[{"role":"user"}]}]}', /missing/],
];
for (const [text, words] of REFUSED) test("refused: " + text, () => assert.throws(() => readFile(text), words));

test("what is not known or of a wrong kind is left out", () => {
    const file = {
        format: "quipu-chat",
        version: 1,
        conversations: [
            {
                title: 7,
                system: ["x"],
                created: "y",
                updated: -1,
                chosen: { __proto__: null, constructor: "a", root: "nobody" },
                extra: 1,
                messages: [
                    {
                        id: "__proto__",
                        role: "user",
                        text: { a: 1 },
                        ending: "<b>",
                        figures: { tokens: "9" },
                        fault: 3,
                        evil: 1,
                    },
                ],
            },
        ],
    };
    const [c] = readFile(JSON.stringify(file)),
        m = c!.messages[0]!;
    assert.equal(c!.title, "");
    assert.equal(c!.system, "");
    assert.ok(c!.created > 0 && c!.updated > 0);
    assert.deepEqual(c!.chosen, {});
    assert.equal("extra" in c!, false);
    assert.equal("evil" in m, false);
    assert.deepEqual([m.text, m.ending, m.figures!.tokens, m.fault], ["", "cut", 0, null]);
    assert.match(m.id, /^m[0-9a-f]+$/);
});
