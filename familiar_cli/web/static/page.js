// Makes what already works a little easier; every page does without it.
"use strict";

// Pages with a live part are read again when something was said or written.
const parts = document.querySelectorAll("[data-live]");
if (parts.length && window.EventSource) {
  const source = new EventSource(document.querySelector("[data-events]").dataset.events);
  let asked = false;
  source.addEventListener("change", async () => {
    if (asked) return;
    asked = true;
    try {
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
    } finally {
      asked = false;
    }
  });
}

// A slider whose form is sent as soon as it is let go; its name is shown while it moves.
for (const slider of document.querySelectorAll("input[type=range][data-days]")) {
  const shown = document.getElementById(slider.dataset.shown);
  const days = slider.dataset.days.split(" ");
  slider.addEventListener("input", () => { shown.textContent = days[slider.value]; });
  slider.addEventListener("change", () => slider.form.requestSubmit());
}
