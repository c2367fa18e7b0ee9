// theme.ts — light, dark, or as the system says; kept in the browser.

export type Theme = "system" | "light" | "dark";
const PLACE = "quipu.theme";

export function readTheme(): Theme {
    try {
        const kept = localStorage.getItem(PLACE);
        return kept === "light" || kept === "dark" ? kept : "system";
    } catch {
        return "system";
    }
}

export function showTheme(theme: Theme): void {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
}

export function chooseTheme(theme: Theme): void {
    showTheme(theme);
    try {
        localStorage.setItem(PLACE, theme);
    } catch {
        // without storage the choice lasts as long as the page
    }
}
