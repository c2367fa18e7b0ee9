// patch.ts — makes a part of the page look like new nodes while keeping the old ones wherever they are the same: what is
// selected stays selected, what is scrolled stays scrolled, and nothing flickers while text streams in.

// The children of `parent` from `from` on become `wanted`.
export function patchChildren(parent: Node, from: number, wanted: Node[]): void {
    wanted.forEach((node, i) => {
        const old = parent.childNodes[from + i];
        if (!old) parent.appendChild(node);
        else if (!isAlike(old, node)) parent.replaceChild(node, old);
        else patch(old, node);
    });
    while (parent.childNodes.length > from + wanted.length) parent.lastChild!.remove();
}

function isAlike(a: Node, b: Node): boolean {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName;
}

function patch(old: Node, wanted: Node): void {
    if (old instanceof Element) {
        patchAttributes(old, wanted as Element);
        patchChildren(old, 0, [...wanted.childNodes]);
    } else if (old.nodeValue !== wanted.nodeValue) {
        old.nodeValue = wanted.nodeValue;
    }
}

function patchAttributes(old: Element, wanted: Element): void {
    for (const { name } of [...old.attributes]) if (!wanted.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of wanted.attributes)
        if (old.getAttribute(name) !== value) old.setAttribute(name, value);
}
