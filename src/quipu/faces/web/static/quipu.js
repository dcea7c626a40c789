// What a script adds to pages that work without it: keys, sliders that answer at once, local times.
"use strict";

const isTyping = (target) => target.matches("input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select");

// On a narrow screen the pages stand in one row that scrolls: the one that is open is brought into sight.
const openPage = document.querySelector(".pages [aria-current]");
const strip = openPage?.closest("nav");
if (strip) strip.scrollLeft = openPage.offsetLeft - (strip.clientWidth - openPage.offsetWidth) / 2;

// Keys: / goes to the search field, j and k to the next and the previous hit.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === "/") {
    const field = document.querySelector("input[type=search]");
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === "j" || event.key === "k") {
    const links = [...document.querySelectorAll(".hit-link")];
    if (!links.length) return;
    const here = links.findIndex((link) => link.closest(".hit").contains(document.activeElement));
    const step = event.key === "j" ? 1 : -1;
    const next = here < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, here + step));
    event.preventDefault();
    links[next].focus();
    links[next].closest(".hit").scrollIntoView({ block: "nearest" });
  } else if (event.key === "x") {
    const tick = document.activeElement?.closest(".hit")?.querySelector("input[type=checkbox]");
    if (!tick) return;
    event.preventDefault();
    tick.checked = !tick.checked;
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
  if (named.name === "decision" && performance.now() - cameUp < UNSEEN_MS) { event.preventDefault(); return; }
  event.preventDefault();
  if (named.matches("form")) named.requestSubmit();
  else named.click();
  const opened = named.matches("summary") ? named.parentElement.querySelector("textarea") : null;
  if (opened) opened.focus();
}

// In a text, Ctrl+Enter sends what is written, and Escape leaves it.
document.addEventListener("keydown", (event) => {
  if (!event.target.matches("textarea")) return;
  if (event.key === "Escape") event.target.blur();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    event.target.form.requestSubmit(event.target.form.querySelector("button[type=submit]"));
  }
});

// A form that changes something is sent once: the second half of a double click would do it again. A download leaves its
// form on the page, so that it may be sent anew after a while.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "yes";
  setTimeout(() => { delete form.dataset.sent; }, 3000);
});

// All that can be ticked on a page at once, or none of them.
for (const button of document.querySelectorAll("[data-tick]")) {
  const ticks = [...button.form.querySelectorAll("input[type=checkbox]")];
  button.hidden = ticks.length < 2;
  button.addEventListener("click", () => {
    const isAll = ticks.every((tick) => tick.checked);
    for (const tick of ticks) tick.checked = !isAll;
  });
}

// A slider over versions shows each one at once; its texts came with the page.
for (const form of document.querySelectorAll("form[data-slider=version]")) {
  const slider = form.elements.version;
  const said = form.querySelector("output");
  const reader = document.getElementById("reader");
  const show = () => {
    said.value = slider.value;
    const text = form.parentElement.querySelector(`template[data-version="${Number(slider.value)}"]`);
    if (text) reader.replaceChildren(text.content.cloneNode(true));
  };
  slider.addEventListener("input", show);
  if (form.hasAttribute("data-live")) form.querySelector("button").hidden = true;
  else slider.addEventListener("change", () => form.requestSubmit());
}

// A slider through time names the moment while it moves, and goes there when it is let go.
for (const form of document.querySelectorAll("form[data-slider=moment]")) {
  const slider = form.elements.moment;
  const said = form.querySelector("output");
  const name = () => {
    const isNow = Number(slider.value) >= Number(slider.max);
    said.value = isNow ? "now" : new Date(Number(slider.value)).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  };
  slider.addEventListener("input", name);
}

// Another agent is asked at once.
for (const choice of document.querySelectorAll(".agents input[type=radio]")) {
  choice.addEventListener("click", (event) => {
    if (choice.form.elements.other) choice.form.elements.other.value = "";
    if (event.detail) choice.form.requestSubmit();
  });
}

// Work that goes on is looked at again while somebody looks; without a script the page does so by itself.
if (document.querySelector("[data-follow]")) {
  setInterval(() => { if (!document.hidden) location.reload(); }, 2000);
}
