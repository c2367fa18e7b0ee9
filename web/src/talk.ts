// talk.ts — what can be done in a conversation: say something, ask again, edit, go on, stop. Each adds to the tree and
// starts an answer; answers of several conversations may run at the same time.
import { newRun, write, type Run } from "./answer";
import type { Library } from "./library";
import { Signal } from "./signal";
import { append, find, newMessage, remove, step } from "./tree";
import type { Conversation, Message } from "./types";

export class Talk {
    readonly progressed = new Signal<Run>(); // an event of an answer
    readonly began = new Signal<Run>();
    readonly ended = new Signal<Run>();

    constructor(private readonly library: Library) {}

    say(c: Conversation, text: string, parent: string | null): void {
        const question = newMessage("user", parent, text);
        append(c, question);
        this.ask(c, question.id);
    }

    // A new answer to a question; the old ones stay beside it.
    ask(c: Conversation, question: string | null): void {
        const answer = newMessage("assistant", question, "");
        append(c, answer);
        void this.run(c, answer, false);
    }

    retry(c: Conversation, answer: Message): void {
        // One that failed before its first word is not worth keeping.
        if (answer.ending === "failed" && !answer.text && !answer.reasoning) remove(c, answer.id);
        this.ask(c, answer.parent);
    }

    goOn(c: Conversation, answer: Message): void {
        void this.run(c, answer, true);
    }

    // A question is asked anew in its new words; an answer gets a sibling that says what the user wrote.
    edit(c: Conversation, message: Message, text: string): void {
        if (message.role === "user") return this.say(c, text, message.parent);
        append(c, { ...newMessage("assistant", message.parent, text), model: message.model, ending: "stop" });
        this.library.touch(c);
    }

    step(c: Conversation, message: Message, by: number): void {
        if (step(c, message, by)) this.library.touch(c);
    }

    erase(c: Conversation, message: Message): () => void {
        const messages = c.messages,
            chosen = { ...c.chosen };
        if (this.library.runs.has(c.id)) this.stop(c);
        remove(c, message.id);
        this.library.touch(c);
        return () => {
            const since = c.messages.filter(m => !messages.includes(m)); // said after the erasing
            c.messages = [...messages, ...since];
            c.chosen = { ...c.chosen, ...chosen };
            this.library.touch(c);
        };
    }

    stop(c: Conversation): void {
        this.library.runs.get(c.id)?.abort.abort();
    }

    private async run(c: Conversation, answer: Message, continues: boolean): Promise<void> {
        if (this.library.runs.has(c.id)) return;
        const run = newRun(c, answer);
        this.library.runs.set(c.id, run);
        this.began.tell(run);
        void this.library.keep(c);
        await write(run, continues, () => this.progress(run));
        this.library.runs.delete(c.id);
        c.updated = Date.now();
        this.ended.tell(run);
        if (find(c, answer.id)) await this.library.keep(c);
    }

    private progress(run: Run): void {
        this.progressed.tell(run);
        this.library.touch(run.conversation);
    }
}
