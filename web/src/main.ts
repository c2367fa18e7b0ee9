// main.ts — puts the parts together and sends the reader to what the address names: #/c/ID a conversation, #/activity.
import { getJson } from "./api";
import { Activity } from "./activity";
import { Composer } from "./composer";
import { byId, replace, say } from "./dom";
import { icon } from "./icons";
import { Library } from "./library";
import { ModelWatch } from "./model";
import { prefs } from "./prefs";
import { openSettings } from "./settings";
import { listenForKeys, openHelp, type Shortcut } from "./shortcuts";
import { Sidebar } from "./sidebar";
import { Talk } from "./talk";
import { chooseTheme, readTheme, type Theme } from "./theme";
import { Thread } from "./thread";
import { announce, toast } from "./toast";
import { titleOf } from "./tree";
import { showWelcome } from "./welcome";

const THEMES: [Theme, "system" | "sun" | "moon", string][] = [
    ["system", "system", "Theme: as the system"],
    ["light", "sun", "Theme: light"],
    ["dark", "moon", "Theme: dark"],
];

function drawTheme(button: HTMLElement): void {
    const row = THEMES.find(t => t[0] === readTheme())!;
    replace(button, icon(row[1]));
    button.setAttribute("aria-label", row[2]);
    button.title = row[2];
}

function nextTheme(button: HTMLElement): void {
    const at = THEMES.findIndex(t => t[0] === readTheme()),
        row = THEMES[(at + 1) % THEMES.length]!;
    chooseTheme(row[0]);
    drawTheme(button);
    announce(row[2]);
}

function go(address: string): void {
    if (location.hash !== address) location.hash = address;
}

// What the address says is shown; what is not there leads to a new conversation.
async function route(library: Library, activity: Activity): Promise<void> {
    const isActivity = location.hash === "#/activity",
        id = /^#\/c\/(\w+)$/.exec(location.hash)?.[1];
    byId("chat").hidden = isActivity;
    activity.show(isActivity);
    if (id && !(await library.open(id))) history.replaceState(null, "", "#/");
    if (!id && !isActivity && library.current.messages.length) library.fresh();
    title(library);
}

function title(library: Library): void {
    const words = location.hash === "#/activity" ? "Activity" : titleOf(library.current);
    say(byId("title"), words);
    document.title = words + " · quipu";
}

function shortcuts(library: Library, talk: Talk, thread: Thread, composer: Composer, sidebar: Sidebar): Shortcut[] {
    const onLast =
        (act: "retry" | "edit" | "previous" | "next" | "goOn" | "copy", role: "user" | "assistant") => (): void => {
            const view = thread.last(role);
            if (view) thread.act(act, view);
        };
    const escape = (): void => {
        if (library.run) talk.stop(library.current);
        else if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    };
    const list: Shortcut[] = [
        { keys: "Escape", about: "stop the answer; else leave the box", run: escape },
        { keys: "/", about: "go to the message box", run: () => composer.box.focus() },
        { keys: "n", about: "new conversation", run: () => fresh(library, composer) },
        { keys: "Ctrl+k", about: "find a conversation", run: () => sidebar.focusSearch() },
        { keys: "r", about: "ask again", run: onLast("retry", "assistant") },
        { keys: "e", about: "edit your last message", run: onLast("edit", "user") },
        { keys: "c", about: "copy the last answer", run: onLast("copy", "assistant") },
        { keys: "g", about: "go on with an answer that was cut off", run: onLast("goOn", "assistant") },
        { keys: "[", about: "previous version of the last answer", run: onLast("previous", "assistant") },
        { keys: "]", about: "next version of the last answer", run: onLast("next", "assistant") },
        { keys: "s", about: "settings", run: () => byId("settings").click() },
        { keys: "m", about: "the model", run: () => byId("model").click() },
        { keys: "j", about: "jobs of the server, and back", run: () => toggleActivity(library) },
        { keys: "b", about: "show or hide the list of conversations", run: () => sidebar.toggle() },
        { keys: "t", about: "light, dark, or as the system", run: () => nextTheme(byId("theme")) },
        { keys: "?", about: "this list", run: () => openHelp(list) },
    ];
    return list;
}

function fresh(library: Library, composer: Composer): void {
    library.fresh();
    go("#/");
    composer.box.focus();
}

function backToChat(library: Library): void {
    go(library.current.messages.length ? "#/c/" + library.current.id : "#/");
}

function toggleActivity(library: Library): void {
    if (location.hash === "#/activity") backToChat(library);
    else go("#/activity");
}

// The server says at / whether it wants a key; so the first thing that a new user sees is a question, not an error.
async function greet(model: ModelWatch): Promise<void> {
    const told = await getJson<{ needs_key?: boolean }>("/").catch(() => ({ needs_key: false }));
    if (told.needs_key && !prefs.key && !prefs.admin) await model.unlock();
    else await model.look();
}

async function start(): Promise<void> {
    const library = await Library.start(),
        talk = new Talk(library),
        model = new ModelWatch();
    const settings = (): void => void openSettings(library);
    const thread = new Thread(library, talk, settings),
        composer = new Composer(library, talk, model);
    const activity = new Activity(() => backToChat(library));
    let keys: Shortcut[] = [];
    const sidebar = new Sidebar(library, {
        activity: () => toggleActivity(library),
        settings,
        help: () => openHelp(keys),
        theme: nextTheme,
        conversation: id => go("#/c/" + id),
        fresh: () => fresh(library, composer),
    });
    keys = shortcuts(library, talk, thread, composer, sidebar);
    listenForKeys(keys);
    composer.box.addEventListener("keydown", e => {
        const view = e.key === "ArrowUp" && !composer.box.value ? thread.last("user") : undefined;
        if (!view) return;
        e.preventDefault();
        thread.act("edit", view);
    });
    drawTheme(byId("theme"));
    byId("settings").append(icon("gear"));
    byId("settings").title = "Settings (S)";
    byId("settings").onclick = settings;
    showWelcome(model, text => composer.fill(text));
    library.failed.on(words => toast(words));
    library.opened.on(() => title(library));
    library.listed.on(() => title(library));
    talk.began.on(run => run.conversation === library.current && go("#/c/" + library.current.id));
    addEventListener("hashchange", () => void route(library, activity));
    addEventListener("dragover", e => e.preventDefault());
    addEventListener("drop", e => {
        e.preventDefault();
        if (e.dataTransfer?.files[0]) void sidebar.importFile(e.dataTransfer.files[0]);
    });
    await route(library, activity);
    thread.draw();
    if (!library.store.isKept)
        toast("This browser keeps nothing for the page; export what you need before you close it.");
    if (matchMedia("(pointer: fine)").matches) composer.box.focus();
    await greet(model);
}

void start();
