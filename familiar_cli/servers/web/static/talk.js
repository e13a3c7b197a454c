// Shows a reply while it comes. Without this file the same forms lead to the same pages.
"use strict";

const composer = document.getElementById("composer");
const box = document.getElementById("say");
const status = document.getElementById("writing");
const stop = document.getElementById("stop");
const picture = document.getElementById("picture");
const PARTS = ["notices", "conversation", "conversations", "heard"];
const list = () => document.querySelector("#conversation [role=log] ol");
const offList = () => document.querySelector("#conversation .off ol");
const lastReply = () => (offList() ?? list()).querySelector("li.assistant:last-of-type .words");
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

// Styled text as it comes, drawn as the server draws what is kept.
const TAGS = { bold: "strong", italic: "em", cyan: "q", green: "code" };
const LINES = ["item", "cited"];

function append(place, name, className = "") {
  const made = place.appendChild(document.createElement(name));
  if (className) made.className = className;
  return made;
}

function draw(words, runs) {
  for (const [text, style] of runs) {
    if (style === "picture") {
      Object.assign(append(words, "img"), { src: text, alt: "Your picture" });
      continue;
    }
    const names = style.split(" "), line = LINES.find((name) => names.includes(name));
    const last = words.lastElementChild;
    let place = words;
    if (line) place = last?.className === line && !last.nextSibling ? last : append(words, "span", line);
    for (const name of names) if (TAGS[name]) place = append(place, TAGS[name]);
    place.append(line ? text.replace("│", "") : text);
  }
  words.normalize();
}

function bubble(role, who) {
  const item = document.getElementById("turn-template").content.firstElementChild.cloneNode(true);
  item.classList.add(role);
  item.querySelector("strong").textContent = who;
  (offList() ?? list()).append(item);
  return item.querySelector(".words");
}

const isAtEnd = () => innerHeight + scrollY >= document.body.scrollHeight - 120;
const toEnd = () => scrollTo({ top: document.body.scrollHeight, behavior: "instant" });

// Take over what the server drew; what a person is typing stays, and so does what they are reading.
function show(html, anchor = null) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  if (!fresh.getElementById("conversation")) {  // an error page, or the way in is closed
    status.textContent = fresh.querySelector("main").textContent.trim();
    return false;
  }
  const draft = fresh.getElementById("say")?.value;
  const top = anchor?.getBoundingClientRect().top;
  for (const id of PARTS) {
    const next = fresh.getElementById(id);
    if (next) document.getElementById(id)?.replaceWith(document.adoptNode(next));
  }
  if (draft && !box.value) box.value = draft;
  if (anchor && lastReply()) {
    const moved = () => lastReply().getBoundingClientRect().top - top;
    scrollBy({ top: moved(), behavior: "instant" });
    if (moved() < 0) document.getElementById("conversation").style.paddingTop = `${16 - moved()}px`;  // a page too short to scroll
  }
  return true;
}

function setBusy(is, text = "") {
  busy = is;
  stop.hidden = !is;
  status.textContent = text;
  list().parentElement.setAttribute("aria-busy", is);
  for (const button of document.querySelectorAll("#conversation .acts button, #send")) {
    if (is && !button.disabled) button.dataset.waits = button.disabled = true;
    else if (!is && button.dataset.waits) button.disabled = delete button.dataset.waits && false;
  }
  if (is) document.getElementById("conversation").removeAttribute("data-live");
}

// A form as it is sent: with its pictures if there are any.
function bodyOf(form, button) {
  const data = new FormData(form, button), pictures = data.getAll("picture").filter((one) => one.size);
  if (pictures.length) return data;
  data.delete("picture");
  return new URLSearchParams(data);
}

function countPictures() {
  const count = picture.files.length;
  box.required = !count;
  picture.previousElementSibling.textContent = !count ? "Add a picture" : count === 1 ? picture.files[0].name : `${count} pictures`;
}

async function take(form, button) {
  const data = bodyOf(form, button);
  const name = document.querySelector(".talk-head h1").textContent;
  const what = data.get("do"), last = lastReply(), pictures = picture?.files;
  setBusy(true, `${name} is writing …`);
  let mine = null, reply = last;
  if (what === "say") mine = bubble("user", "You");
  if (what === "edit") mine = form.closest("li").querySelector(".words");
  if (mine) mine.textContent = data.get("text").replace(/[*`]+/g, "");
  if (what !== "continue" || !last) {
    if (what !== "say" && last && !data.get("off")) last.closest("li").hidden = true;
    reply = bubble("assistant", name);
  }
  if (what === "say") box.value = "";
  if (what === "say" && picture) { picture.value = ""; countPictures(); }
  toEnd();
  let ended = "The connection was lost. Reload the page to see what was saved.", isShown = false;
  const finish = (html) => {
    const follows = isAtEnd();
    isShown = show(html, reply.textContent ? reply : null);
    if (follows && !reply.textContent) toEnd();
    const told = document.querySelector("#notices .failure, #notices .plain");
    ended = !isShown ? status.textContent : told ? "" : `${name} has replied.`;
  };
  try {
    const answer = await fetch(form.action, {
      method: "POST", body: data, headers: { Accept: "text/event-stream" },
    });
    if (!answer.headers.get("content-type").startsWith("text/event-stream")) {
      finish(await answer.text());
      return;
    }
    for await (const [event, value] of eventsOf(answer.body)) {
      const follows = isAtEnd();
      if (event === "begun") {
        const words = what === "continue" ? reply : mine;
        words?.replaceChildren();
        if (words) draw(words, value);
      }
      if (event === "text") draw(reply, value);
      if (event === "wait") status.textContent = value;
      if (event === "page") finish(value);
      else if (follows) toEnd();
    }
  } catch {
    // What follows says so.
  } finally {
    if (what === "say" && !isShown && !reply.textContent && !box.value) {
      box.value = data.get("text");
      if (picture) { picture.files = pictures; countPictures(); }
    }
    setBusy(false, ended);
    if (matchMedia("(hover: hover)").matches) box.focus({ preventScroll: true });
  }
}

// Swipes, corrections and the like: the page that comes of them is taken over in place.
async function swap(form, button) {
  const body = bodyOf(form, button);
  setBusy(true);
  let ended = "That could not be sent. Reload the page to see what was saved.";
  try {
    const answer = await fetch(form.action, { method: "POST", body });
    ended = show(await answer.text(), lastReply()) ? "" : status.textContent;
  } catch {
    // What follows says so.
  } finally {
    setBusy(false, ended);
    stop.hidden = true;
    document.querySelector(`#conversation .acts button[aria-label="${button?.ariaLabel}"]:enabled`)?.focus({ preventScroll: true });
  }
}

if (composer) {
  document.addEventListener("submit", (event) => {
    const takes = event.target.matches("form[data-turn]");
    if ((!takes && !event.target.matches("form[data-swap]")) || event.submitter?.hasAttribute("formaction")) return;
    event.preventDefault();
    if (!busy) (takes ? take : swap)(event.target, event.submitter);
  });
  stop.addEventListener("click", () => {
    const where = new URLSearchParams({ channel: composer.elements.channel.value });
    status.textContent = "Stopping …";
    fetch(composer.dataset.stop, { method: "POST", body: where });
  });
  // A picture can be sent without words, and can be pasted.
  picture?.addEventListener("change", countPictures);
  box.addEventListener("paste", (event) => {
    if (!picture || !event.clipboardData.files.length) return;
    event.preventDefault();
    picture.files = event.clipboardData.files;
    countPictures();
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
  document.querySelector("#conversations .close").addEventListener("click", (event) => {
    event.preventDefault();
    history.replaceState(null, "", location.pathname + location.search);
    location.hash = "";
  });
  if (matchMedia("(hover: hover)").matches) box.focus({ preventScroll: true });
}
