// What a script adds to pages that work without it: keys, local comforts, and forms that are sent once.
"use strict";

const isTyping = (target) => target.matches("input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select");

// On a narrow screen the pages stand in one row that scrolls: the one that is open is brought into sight.
for (const open of document.querySelectorAll(".side [aria-current]")) {
  const strip = open.closest("nav");
  if (strip) strip.scrollLeft = open.offsetLeft - (strip.clientWidth - open.offsetWidth) / 2;
}

// Keys: / goes to the search field, j and k to the next and the previous row, x ticks it.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === "/") {
    const field = document.querySelector("input[type=search]");
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === "j" || event.key === "k") {
    const links = [...document.querySelectorAll(".row-link")];
    if (!links.length) return;
    const here = links.findIndex((link) => link.closest("[data-row]").contains(document.activeElement));
    const step = event.key === "j" ? 1 : -1;
    const next = here < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, here + step));
    event.preventDefault();
    links[next].focus();
    links[next].closest("[data-row]").scrollIntoView({ block: "nearest" });
  } else if (event.key === "x") {
    const tick = document.activeElement?.closest("[data-row]")?.querySelector("input[type=checkbox]");
    if (!tick) return;
    event.preventDefault();
    tick.click();
  } else {
    press(event);
  }
});

// A control with a key of its own is pressed by it; one that opens something hands the cursor on to what it opened.
// A key that is held down presses once, and no key decides on a page that came up just now: the second tap of two was
// meant for the page before, and this one would be decided on unseen.
const cameUp = performance.now();
const UNSEEN_MS = 400;
function press(event) {
  if (event.repeat) return;
  const named = /^[a-z]$/.test(event.key) ? document.querySelector(`[data-key="${event.key}"]`) : null;
  if (!named) return;
  event.preventDefault();
  if (named.matches("[data-decides]") && performance.now() - cameUp < UNSEEN_MS) return;
  named.click();
  const opened = named.matches("summary") ? named.parentElement.querySelector("textarea") : null;
  if (opened) opened.focus();
}

// In a text, Ctrl+Enter sends what is written, and Escape leaves it.
document.addEventListener("keydown", (event) => {
  if (!event.target.matches("textarea")) return;
  if (event.key === "Escape") event.target.blur();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    const button = event.target.form?.querySelector("button[type=submit]:not([disabled])");
    if (!button) return;
    event.preventDefault();
    event.target.form.requestSubmit(button);
  }
});

// A form that changes something is sent once: the second half of a double click would do it again.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  const question = event.submitter?.dataset.asks;
  if (question && !confirm(question.replace("{count}", String(ticked(form).length)))) { event.preventDefault(); return; }
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "yes";
  setTimeout(() => { delete form.dataset.sent; }, 3000);
});
addEventListener("pageshow", () => { for (const form of document.forms) delete form.dataset.sent; });

// Ticks: all or none at once, and the bar says how many there are.
const ticked = (form) => [...form.elements].filter((one) => one.type === "checkbox" && one.name === "pick" && one.checked);
for (const all of document.querySelectorAll("[data-tick-all]")) {
  const form = all.form;
  const ticks = [...form.elements].filter((one) => one.type === "checkbox" && one.name === "pick");
  const said = document.querySelector(`[data-ticked="${form.id}"]`);
  const tell = () => {
    const count = ticked(form).length;
    all.checked = count > 0 && count === ticks.length;
    all.indeterminate = count > 0 && count < ticks.length;
    if (said) said.textContent = count ? `${count} ticked` : "";
  };
  all.closest("[hidden]")?.removeAttribute("hidden");
  all.addEventListener("change", () => { for (const tick of ticks) tick.checked = all.checked; tell(); });
  for (const tick of ticks) tick.addEventListener("change", tell);
  tell();
}

// A choice that filters is applied at once.
for (const choice of document.querySelectorAll("[data-apply]")) {
  choice.addEventListener("change", () => choice.form.requestSubmit());
}

// What is shown this once is taken whole with one click.
for (const field of document.querySelectorAll("[data-select]")) {
  field.addEventListener("focus", () => field.select());
}

// Work that goes on is looked at again while somebody looks; without a script the page does so by itself.
if (document.querySelector("[data-follow]")) {
  setInterval(() => { if (!document.hidden) location.reload(); }, 2000);
}
