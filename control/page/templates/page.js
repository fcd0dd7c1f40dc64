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
    connection.textContent = "Live: what is different is shown within a second.";
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

function show(html) {
  const active = document.activeElement;
  if (active && active !== live && live.contains(active) && active.tagName === "BUTTON") return; // Somebody is about to press it.
  const scrolled = [...live.querySelectorAll(".table")].map((table) => [table.getAttribute("aria-label"), table.scrollLeft]);
  live.innerHTML = html;
  for (const [label, left] of scrolled) {
    const table = live.querySelector('.table[aria-label="' + label + '"]');
    if (table) table.scrollLeft = left;
  }
}

const source = new EventSource("/page/events");
source.addEventListener("live", (event) => { heard(); show(event.data); });
source.addEventListener("heartbeat", heard);
source.onerror = lost;
setInterval(() => { if (Date.now() - heardAt > SILENT_MS) lost(); }, 1000);
