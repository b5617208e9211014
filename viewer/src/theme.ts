// Light or dark: as the system says until the button is pressed.
import { h } from "./elements";

export function themeButton(): HTMLButtonElement {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const button = h("button", { type: "button", class: "theme", title: "light or dark" });
  const name = () => {
    button.textContent = isDark() ? "☀ light" : "☾ dark";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
  return button;
}
