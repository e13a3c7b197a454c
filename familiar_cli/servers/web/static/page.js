// Makes what already works a little easier; every page does without it.
"use strict";

// Pages with a live part are read again when something was said or written.
const parts = document.querySelectorAll("[data-live]");
if (parts.length && window.EventSource) {
  const source = new EventSource(document.querySelector("[data-events]").dataset.events);
  let reading = false, changed = false;
  async function readAgain() {
    changed = true;
    if (reading) return;
    reading = true;
    try {
      while (changed) {
        changed = false;
        const answer = await fetch(location.href, { credentials: "same-origin" });
        if (!answer.ok) return;
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of document.querySelectorAll("[data-live]")) {
          const next = fresh.getElementById(part.id);
          if (!next || part.contains(document.activeElement)) continue;
          for (const { id } of part.querySelectorAll("details[open][id]")) {
            fresh.getElementById(id)?.setAttribute("open", "");
          }
          if (!next.isEqualNode(part)) part.replaceWith(document.adoptNode(next));
        }
      }
    } finally {
      reading = false;
    }
  }
  source.addEventListener("change", readAgain);
}

// A slider of days: at each step the part of the page that it is about is read again, and the slider keeps the focus.
for (const slider of document.querySelectorAll("input[type=range][data-days]")) {
  const shown = document.getElementById(slider.dataset.shown), days = slider.dataset.days.split(" ");
  const day = slider.form.parentElement.querySelector("input[name=at]"), steps = slider.form.parentElement.querySelectorAll("a[data-step]");
  let asked = null;
  const show = async () => {
    const at = days[slider.value], address = `${slider.dataset.page}?at=${at}`;
    shown.textContent = new Date(`${at}T12:00`).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });
    day.value = at;
    slider.setAttribute("aria-valuetext", shown.textContent);
    for (const step of steps) {
      const next = days[Number(slider.value) + Number(step.dataset.step)];
      if (next) step.href = `${slider.dataset.page}?at=${next}`;
      step.hidden = !next && step !== document.activeElement;
    }
    asked?.abort();
    asked = new AbortController();
    try {
      const answer = await fetch(address, { credentials: "same-origin", signal: asked.signal });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const part = fresh.getElementById(slider.dataset.part);
      if (!answer.ok || !part || at !== days[slider.value]) return;
      document.getElementById(slider.dataset.part).replaceWith(document.adoptNode(part));
      document.title = fresh.title;
      history.replaceState(null, "", address);
    } catch (error) {
      if (error.name !== "AbortError") location.assign(address);
    }
  };
  slider.addEventListener("input", show);
  for (const step of steps) {
    step.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      slider.value = Number(slider.value) + Number(step.dataset.step);
      show();
    });
  }
}

document.addEventListener("keydown", (event) => {
  const seek = document.getElementById("seek");
  if (!seek || event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  event.preventDefault();
  seek.focus();
  seek.select();
});
