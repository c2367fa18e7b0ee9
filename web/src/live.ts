// live.ts — markdown that grows: draws at most once a frame, and only the block that is being written; what lies before
// it is final. The end draws it once more as a whole, because a link's address may be given below its use.
import { lastBlock, renderMarkdown } from "./markdown";
import { patchChildren } from "./patch";

const SLOW_MS = 12; // a block that takes longer than this to draw is drawn less often

export class LiveText {
    private text = "";
    private final = 0; // characters drawn for good
    private finalNodes = 0; // and what they became
    private frame = 0;
    private notBefore = 0;

    constructor(
        readonly element: HTMLElement,
        private readonly drawn: () => void,
    ) {}

    // The whole text so far.
    grow(text: string): void {
        const plain = text.replace(/\r\n?/g, "\n");
        if (!plain.startsWith(this.text.slice(0, this.final))) this.final = this.finalNodes = 0;
        this.text = plain;
        if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
    }

    finish(text: string): void {
        cancelAnimationFrame(this.frame);
        this.frame = 0;
        this.text = text.replace(/\r\n?/g, "\n");
        this.final = this.finalNodes = 0;
        patchChildren(this.element, 0, [...renderMarkdown(this.text).childNodes]);
        this.drawn();
    }

    private draw(): void {
        this.frame = 0;
        const began = performance.now();
        if (began < this.notBefore) {
            this.frame = requestAnimationFrame(() => this.draw());
            return;
        }
        this.settle();
        patchChildren(this.element, this.finalNodes, [...renderMarkdown(this.text.slice(this.final)).childNodes]);
        const took = performance.now() - began;
        if (took > SLOW_MS) this.notBefore = began + took * 6;
        this.drawn();
    }

    // Draws for good what has got a block after it.
    private settle(): void {
        const tail = this.text.slice(this.final),
            at = lastBlock(tail);
        if (at <= 0) return;
        const nodes = [...renderMarkdown(tail.slice(0, at)).childNodes];
        patchChildren(this.element, this.finalNodes, nodes);
        this.finalNodes += nodes.length;
        this.final += at;
    }
}
