// Shows a reply while it comes. Without this file the same forms lead to the same pages.
"use strict";

const composer = document.getElementById("composer");
const box = document.getElementById("say");
const status = document.getElementById("writing");
const stop = document.getElementById("stop");
const list = () => document.querySelector("#conversation [role=log] ol");
const offList = () => document.querySelector("#conversation .off ol");
let busy = false;

// Server-sent events of a response to POST, each as its name and its text.
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(event) ?? [];
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

function bubble(role, who, text) {
  const item = document.createElement("li");
  item.className = `turn ${role}`;
  const head = document.createElement("div");
  head.className = "turn-head";
  head.append(document.createElement("strong"));
  head.firstChild.textContent = who;
  const words = document.createElement("div");
  words.className = "words";
  words.dir = "auto";
  words.textContent = text;
  item.append(head, words);
  (offList() ?? list()).append(item);
  return words;
}

const isAtEnd = () => innerHeight + scrollY >= document.body.scrollHeight - 120;
const toEnd = () => scrollTo({ top: document.body.scrollHeight });

// Take over what the server drew; what a person is typing stays.
function show(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  if (!fresh.getElementById("conversation")) {  // an error page, or the way in is closed
    status.textContent = fresh.querySelector("main").textContent.trim();
    return false;
  }
  const draft = fresh.getElementById("say").value;
  for (const id of ["notices", "conversation", "conversations"]) {
    document.getElementById(id).replaceWith(document.adoptNode(fresh.getElementById(id)));
  }
  if (draft && !box.value) box.value = draft;
  toEnd();
  return true;
}

function setBusy(is, text = "") {
  busy = is;
  stop.hidden = !is;
  status.textContent = text;
  list().parentElement.setAttribute("aria-busy", is);
  if (is) document.getElementById("conversation").removeAttribute("data-live");
}

async function take(form, button) {
  const data = new URLSearchParams(new FormData(form, button));
  const name = document.querySelector(".talk-head h1").textContent;
  const what = data.get("do");
  const last = list().querySelector("li.assistant:last-of-type .words");
  setBusy(true, `${name} is writing …`);
  let reply;
  if (what === "continue" && last) {
    reply = last;
  } else {
    if (what === "say") bubble("user", "You", data.get("text"));
    if (what === "edit") form.closest("li").querySelector(".words").textContent = data.get("text");
    if (what !== "say" && last && !data.get("off")) last.closest("li").hidden = true;
    reply = bubble("assistant", name, "");
  }
  const begun = reply.textContent;
  if (what === "say") box.value = "";
  toEnd();
  let ended = "The connection broke off. Reload the page to see what was kept.";
  let came = begun, isShown = false;
  const finish = (html) => {
    isShown = show(html);
    const failed = document.querySelector("#notices .callout");
    ended = !isShown ? status.textContent : failed ? "" : `${name} has replied.`;
  };
  try {
    const answer = await fetch(form.action, {
      method: "POST", body: data, headers: { Accept: "text/event-stream" },
    });
    if (!answer.headers.get("content-type").startsWith("text/event-stream")) {
      finish(await answer.text());
      return;
    }
    for await (const [event, text] of eventsOf(answer.body)) {
      const follows = isAtEnd();
      if (event === "text") reply.textContent = came += text;
      if (event === "wait") status.textContent = text;
      if (event === "page") finish(text);
      if (follows) toEnd();
    }
  } catch {
    // What follows says so.
  } finally {
    if (what === "say" && !isShown && !came && !box.value) box.value = data.get("text");
    setBusy(false, ended);
    if (matchMedia("(hover: hover)").matches) box.focus();
  }
}

if (composer) {
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-turn]")) return;
    event.preventDefault();
    if (!busy) take(event.target, event.submitter);
  });
  stop.addEventListener("click", () => {
    const where = new URLSearchParams({ channel: composer.elements.channel.value });
    fetch(composer.dataset.stop, { method: "POST", body: where });
  });
  box.addEventListener("input", () => { if (!busy) status.textContent = ""; });
  box.addEventListener("keydown", (event) => {
    const sends = event.key === "Enter" && !event.shiftKey && !event.isComposing;
    if (sends && matchMedia("(hover: hover)").matches) {
      event.preventDefault();
      composer.requestSubmit(document.getElementById("send"));
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && busy) stop.click();
  });
  // Back on the record: what was said off it is forgotten, here too.
  composer.elements.off.addEventListener("change", async (event) => {
    if (!event.target.checked && offList()) show(await (await fetch(location.href)).text());
  });
  if (!location.hash) toEnd();
  if (matchMedia("(hover: hover)").matches) box.focus({ preventScroll: true });
}
