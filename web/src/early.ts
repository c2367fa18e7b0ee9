// early.ts — runs before the first paint: the chosen theme, so that a dark page never flashes white.
import { readTheme, showTheme } from "./theme";

showTheme(readTheme());
