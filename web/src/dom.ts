// dom.ts — makes elements. Text always goes in as text, never as HTML, so nothing that a model, a user or a file says
// can become markup here; the one place that takes HTML is markdown.ts.

export type Child = Node | string | null | undefined | false;
export type Props = Record<string, unknown>;

// Functions become listeners (`onclick`), true an empty attribute, false, null and undefined none.
export function el<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    props: Props = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
        if (typeof value === "function") node.addEventListener(name.slice(2), value as EventListener);
        else if (value === true) node.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
    }
    add(node, ...children);
    return node;
}

export function add(parent: Node, ...children: Child[]): void {
    for (const child of children) if (child) parent.appendChild(typeof child === "string" ? text(child) : child);
}

export function text(value: string): Text {
    return document.createTextNode(value);
}

export function replace(parent: Element, ...children: Child[]): void {
    parent.replaceChildren();
    add(parent, ...children);
}

// Elements of index.html; they are there from the first moment.
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
    const node = document.getElementById(id);
    if (!node) throw new Error("index.html has no #" + id);
    return node as T;
}

// Sets a text only when it is another one, so that screen readers and layout are left alone.
export function say(node: Node, value: string): void {
    if (node.textContent !== value) node.textContent = value;
}
