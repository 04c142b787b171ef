"use strict";
// Checks every few seconds whether the run has made progress, and updates the page. It pauses while the page is hidden, while the keyboard
// focus is in the updated part, and after a click on Pause.
(() => {
  const live = document.getElementById("live"), said = document.getElementById("said");
  const pause = document.getElementById("pause"), again = document.getElementById("again");
  if (!live || !said || !pause || live.dataset.live !== "yes") return;
  const every = 5000, longest = 60000;
  let still = false, wait = every, timer = 0;
  const tell = (text) => { if (said.textContent !== text) said.textContent = text; };
  const later = () => { clearTimeout(timer); timer = setTimeout(look, wait); };
  const states = () => tell(still ? "This page is paused. " : `This page refreshes every ${every / 1000} seconds. `);
  async function look() {
    if (still) return;
    if (document.hidden || live.contains(document.activeElement)) return later();
    try {
      const answer = await fetch(location.pathname + location.search, { cache: "no-store", credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
      if (!next) throw new Error("another page");
      if (next.innerHTML !== live.innerHTML) live.replaceChildren(...document.importNode(next, true).childNodes);
      wait = every;
      if (next.dataset.live !== "yes") { pause.hidden = true; tell("The run has ended. "); return; }
      states();
    } catch {
      wait = Math.min(2 * wait, longest);
      tell("The server does not answer; trying again. ");
    }
    later();
  }
  pause.hidden = false;
  pause.addEventListener("click", () => {
    still = !still;
    pause.textContent = still ? "Resume" : "Pause";
    states();
    if (!still) look();
  });
  again.addEventListener("click", (event) => { event.preventDefault(); still = false; pause.textContent = "Pause"; states(); look(); });
  states();
  later();
})();
