"use strict";
// Pages work without this script. It refreshes a page while a run is in progress, applies filters at once, copies commands and saves
// pictures as PNG. It asks only this server.
(() => {
  const longest = 60000;
  const of = (id) => document.getElementById(id);
  const get = async (address) => {
    const answer = await fetch(address, { cache: "no-store", credentials: "same-origin" });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.text();
  };
  // Replaces a part of this page by the same part of another one, and returns the new part. The counts above a list follow. Folded
  // filters stay as the reader left them.
  const swap = async (address, id) => {
    const page = new DOMParser().parseFromString(await get(address), "text/html");
    const next = page.getElementById(id), now = of(id);
    if (!next || !now) throw new Error("another page");
    if (next.innerHTML !== now.innerHTML) now.replaceChildren(...document.importNode(next, true).childNodes);
    for (const count of ["filters", "count"]) {
      const counted = page.getElementById(count)?.textContent;
      if (counted && of(count) && of(count).textContent !== counted) of(count).textContent = counted;
    }
    now.dataset.live = next.dataset.live;
    shown(now);
    return next;
  };
  const shown = (part) => { for (const one of part.querySelectorAll("button.copy, a.png")) one.hidden = false; };

  // Filters and sliders.
  for (const form of document.querySelectorAll("form[data-swap]")) {
    let timer = 0;
    const apply = async () => {
      const words = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
      const address = form.getAttribute("action") + (words.size ? `?${words}` : "");
      try {
        await swap(address, form.dataset.swap);
        history.replaceState(null, "", address);
      } catch { form.submit(); }
    };
    form.addEventListener("input", (event) => {
      const output = event.target.nextElementSibling;
      if (output && output.tagName === "OUTPUT") output.value = event.target.value;
      clearTimeout(timer);
      timer = setTimeout(apply, 300);
    });
    form.addEventListener("submit", () => clearTimeout(timer));
  }

  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("button.copy"), png = event.target.closest("a.png");
    if (copy) {
      try { await navigator.clipboard.writeText(copy.parentElement.querySelector("code").textContent); copy.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(copy.parentElement.querySelector("code")); copy.textContent = "Press Ctrl-C"; }
    }
    if (png) {
      event.preventDefault();
      const image = new Image();
      image.onload = () => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        const link = document.createElement("a");
        link.download = `${png.dataset.name}.png`;
        link.href = canvas.toDataURL("image/png");
        link.click();
      };
      image.src = `data:image/svg+xml,${encodeURIComponent(await get(png.href))}`;
    }
  });
  shown(document);

  // Checks every few seconds whether a run has made progress. It pauses while the page is hidden, while the keyboard focus is in the
  // updated part, and after a click on Pause.
  const live = of("live"), said = of("said"), pause = of("pause"), again = of("again");
  if (!live || !said || !pause || live.dataset.live !== "yes") return;
  const every = Number(live.dataset.every) || 5000, often = every === 1000 ? "second" : `${every / 1000} seconds`;
  let still = false, wait = every, timer = 0, misses = 0;
  const tell = (text) => { if (said.textContent !== text) said.textContent = text; };
  const later = () => { clearTimeout(timer); timer = setTimeout(look, wait); };
  const states = () => tell(still ? "This page is paused. " : `This page refreshes every ${often}. `);
  async function look() {
    if (still) return;
    if (document.hidden || live.contains(document.activeElement)) return later();
    try {
      const next = await swap(location.pathname + location.search, "live");
      wait = every;
      misses = 0;
      if (next.dataset.live !== "yes") { pause.hidden = true; tell(live.dataset.end || "The run has ended. "); return; }
      states();
    } catch {
      misses += 1;
      // The server of a single load ends with it.
      if (live.dataset.gone && misses > 1) { pause.hidden = true; tell(live.dataset.gone); return; }
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
