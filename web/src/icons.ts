// icons.ts — the page's own drawings, as lines on a 20 x 20 grid.

const NAMES = {
    menu: "M3 5.5h14M3 10h14M3 14.5h9",
    plus: "M10 4v12M4 10h12",
    send: "M10 16.5v-12M4.8 9.6 10 4.4l5.2 5.2",
    stop: "M6 6h8v8H6z",
    gear: "M4 6h6m4 0h2M4 14h2m4 0h6M10 6a2 2 0 1 0 4 0 2 2 0 1 0-4 0M6 14a2 2 0 1 0 4 0 2 2 0 1 0-4 0",
    pulse: "M2.5 10.5h3.2l2.2-6 4 11 2.2-5h3.4",
    pencil: "M4 16l.8-3.4 8.4-8.4 2.6 2.6-8.4 8.4zM11.6 5.8l2.6 2.6",
    retry: "M15.8 8.2A6.2 6.2 0 1 0 16.2 11M16 4v4.3h-4.3",
    copy: "M7.5 7.5h8.5v8.5H7.5zM12.5 4.5V4H4v8.5h.6",
    check: "M4.5 10.8l3.5 3.5 7.5-8.3",
    left: "M12 5l-5 5 5 5",
    right: "M8 5l5 5-5 5",
    down: "M5 8l5 5 5-5",
    trash: "M4 6h12M8 6V4.2h4V6M5.5 6l.7 10.2h7.6L14.5 6",
    close: "M5 5l10 10M15 5L5 15",
    forward: "M5 4.5v11l9-5.5z",
    save: "M10 3.5v9m-3.6-3.6L10 12.5l3.6-3.6M4 16.2h12",
    open: "M10 12.7v-9M6.4 7.3 10 3.7l3.6 3.6M4 16.2h12",
    sun: "M10 6.6a3.4 3.4 0 1 0 0 6.8 3.4 3.4 0 0 0 0-6.8M10 2v1.8M10 16.2V18M2 10h1.8M16.2 10H18M4.3 4.3l1.3 1.3M14.4 14.4l1.3 1.3M15.7 4.3l-1.3 1.3M5.6 14.4l-1.3 1.3",
    moon: "M16 11.6A6.5 6.5 0 1 1 8.4 4a5.2 5.2 0 0 0 7.6 7.6z",
    system: "M3 4.5h14v9H3zM8 16.5h4M10 13.5v3",
    help: "M7.6 7.6a2.4 2.4 0 1 1 3.5 2.1c-.8.4-1.1.9-1.1 1.8M10 14.4v.2",
    key: "M12.5 3.6a3.9 3.9 0 1 1-3.4 5.8L3.6 15v1.4h2.6v-1.8h1.9v-1.8l1.9-1.4M13 7.1v.1",
    box: "M10 3l6 3.2v7.6L10 17l-6-3.2V6.2zM4 6.2l6 3.3 6-3.3M10 9.5V17",
    search: "M9 4a5 5 0 1 0 0 10A5 5 0 0 0 9 4M12.7 12.7 16.5 16.5",
};
export type IconName = keyof typeof NAMES;
const SVG = "http://www.w3.org/2000/svg";

export function drawing(width: number, height: number): SVGSVGElement {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 " + width + " " + height);
    svg.setAttribute("aria-hidden", "true");
    return svg;
}

export function line(d: string, kind = ""): SVGPathElement {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", d);
    if (kind) path.setAttribute("class", kind);
    return path;
}

export function icon(name: IconName): SVGSVGElement {
    const svg = drawing(20, 20);
    svg.setAttribute("class", "icon");
    svg.appendChild(line(NAMES[name]));
    return svg;
}
