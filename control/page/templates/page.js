"use strict";
const live = document.getElementById("live");
const connection = document.getElementById("connection");
const SILENT_MS = 6000;
let heardAt = Date.now();
let isLost = false;

const clockText = (time) => new Date(time).toLocaleTimeString();

function heard() {
  heardAt = Date.now();
  if (isLost || connection.className !== "") {
    isLost = false;
    connection.className = "";
    connection.textContent = "Live: changes are shown within a second.";
  }
}

function lost() {
  if (!isLost) {
    isLost = true;
    connection.className = "lost";
    connection.textContent =
      "The connection to the broker is lost. What is shown is how it was at " + clockText(heardAt) + ".";
  }
}

// Identifies a button, so that it can be found again after an update of the page.
const purpose = (button) =>
  [button.form.getAttribute("action"), ...[...button.form.elements].map((each) => (each === button ? "*" : "") + each.value)].join();

let waiting = null; // What is shown when no button is held down any more.

function show(html) {
  waiting = html;
  if (live.querySelector("button:active")) return; // A press of a button that is replaced meanwhile would be lost.
  waiting = null;
  const active = document.activeElement;
  const focused = active && active.tagName === "BUTTON" && live.contains(active) ? purpose(active) : "";
  const scrolled = [...live.querySelectorAll(".table")].map((table) => [table.getAttribute("aria-label"), table.scrollLeft]);
  live.innerHTML = html;
  for (const [label, left] of scrolled) {
    const table = live.querySelector('.table[aria-label="' + label + '"]');
    if (table) table.scrollLeft = left;
  }
  if (focused) {
    const same = [...live.querySelectorAll("button")].find((each) => purpose(each) === focused);
    if (same) same.focus({ preventScroll: true });
  }
}

const source = new EventSource("/page/events");
source.addEventListener("live", (event) => { heard(); show(event.data); });
source.addEventListener("heartbeat", heard);
source.onerror = lost;
setInterval(() => {
  if (waiting !== null) show(waiting);
  if (Date.now() - heardAt > SILENT_MS) lost();
}, 1000);
