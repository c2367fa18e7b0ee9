// tree.test.ts — the tree of messages: paths, siblings, forks that remember, taking away.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    append,
    choose,
    find,
    lineage,
    newConversation,
    newMessage,
    path,
    remove,
    siblings,
    step,
    titleOf,
} from "../src/tree";
import type { Conversation, Message, Role } from "../src/types";

function add(c: Conversation, role: Role, parent: Message | null, text: string): Message {
    const m = newMessage(role, parent?.id ?? null, text);
    append(c, m);
    return m;
}

const texts = (list: Message[]): string => list.map(m => m.text).join(" ");

// q1 - a1 - q2 - a2
//    \ a1b - q3
function sample(): [Conversation, Record<string, Message>] {
    const c = newConversation("sys"),
        q1 = add(c, "user", null, "q1"),
        a1 = add(c, "assistant", q1, "a1");
    const q2 = add(c, "user", a1, "q2"),
        a2 = add(c, "assistant", q2, "a2");
    const a1b = add(c, "assistant", q1, "a1b"),
        q3 = add(c, "user", a1b, "q3");
    return [c, { q1, a1, q2, a2, a1b, q3 }];
}

test("an empty conversation", () => {
    const c = newConversation("");
    assert.deepEqual(path(c), []);
    assert.equal(titleOf(c), "New conversation");
});

test("the newest way is shown", () => assert.equal(texts(path(sample()[0])), "q1 a1b q3"));

test("stepping at a fork, and what lies below is remembered", () => {
    const [c, m] = sample();
    assert.equal(step(c, m.a1b!, -1), true);
    assert.equal(texts(path(c)), "q1 a1 q2 a2");
    add(c, "assistant", m.q2!, "a2b");
    assert.equal(texts(path(c)), "q1 a1 q2 a2b");
    step(c, m.a1!, 1);
    assert.equal(texts(path(c)), "q1 a1b q3");
    step(c, m.a1b!, -1);
    assert.equal(texts(path(c)), "q1 a1 q2 a2b");
});

test("no step beyond the ends", () => {
    const [c, m] = sample();
    assert.equal(step(c, m.a1b!, 1), false);
    assert.equal(step(c, m.a1!, -1), false);
    assert.equal(texts(path(c)), "q1 a1b q3");
});

test("siblings and lineage", () => {
    const [c, m] = sample();
    assert.equal(texts(siblings(c, m.a1!)), "a1 a1b");
    assert.equal(texts(lineage(c, m.a2!.id)), "q1 a1 q2 a2");
    assert.deepEqual(lineage(c, null), []);
    assert.equal(find(c, m.q2!.id), m.q2);
    assert.equal(find(c, null), undefined);
});

test("forks at the root", () => {
    const [c, m] = sample();
    add(c, "user", null, "other");
    assert.equal(texts(path(c)), "other");
    choose(c, m.q1!);
    assert.equal(texts(path(c)), "q1 a1b q3");
});

test("taking away takes what follows, and shows what is left", () => {
    const [c, m] = sample();
    assert.equal(texts(remove(c, m.a1b!.id)), "a1b q3");
    assert.equal(texts(path(c)), "q1 a1 q2 a2");
    assert.equal(remove(c, m.q1!.id).length, 4);
    assert.deepEqual(c.messages, []);
    assert.deepEqual(c.chosen, {});
});

test("titles", () => {
    const [c] = sample();
    assert.equal(titleOf(c), "q1");
    c.title = "mine";
    assert.equal(titleOf(c), "mine");
    const long = newConversation("");
    add(long, "user", null, " word\n".repeat(40));
    assert.ok(titleOf(long).length <= 60 && titleOf(long).endsWith("…"));
});
