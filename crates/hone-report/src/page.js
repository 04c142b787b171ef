// Adds a button to every command, which copies it. The page can be read without this.
for (const block of document.querySelectorAll("pre.command")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent.trim());
    } catch {
      getSelection().selectAllChildren(block);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.after(button);
}

// Flame graphs: a click on a bar zooms to it, and a field finds functions by name. The page can be read without this.
for (const flame of document.querySelectorAll("svg.flame")) {
  // plot/flame.rs has the same numbers.
  const LETTER = 7, MARGIN = 8;
  const whole = flame.viewBox.baseVal.width;
  const bars = [...flame.querySelectorAll("g")].map((group) => {
    const [rect, text, title] = ["rect", "text", "title"].map((name) => group.querySelector(name));
    const [x, width] = ["x", "width"].map((name) => Number(rect.getAttribute(name)));
    return { group, rect, text, name: title.textContent.split("\n")[0], x, width };
  });
  const label = (name, width) => {
    const fits = Math.floor((width - MARGIN) / LETTER);
    if ([...name].length <= fits) return name;
    return fits < 4 ? "" : `${[...name].slice(0, fits - 1).join("")}…`;
  };
  const zoom = (to) => {
    const scale = whole / to.width;
    for (const { group, rect, text, name, x, width } of bars) {
      const begin = Math.max(0, (x - to.x) * scale);
      const seen = Math.min(whole, (x + width - to.x) * scale) - begin;
      group.style.display = seen > 0.05 ? "" : "none";
      rect.setAttribute("x", begin);
      rect.setAttribute("width", Math.max(0, seen));
      text.setAttribute("x", begin + MARGIN / 2);
      text.textContent = label(name, seen);
    }
    reset.disabled = to === bars[0];
  };
  const reset = document.createElement("button");
  reset.type = "button";
  reset.className = "copy";
  reset.textContent = "Show all";
  reset.disabled = true;
  reset.addEventListener("click", () => zoom(bars[0]));
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Find a function";
  field.setAttribute("aria-label", "Find a function; Enter zooms to the widest");
  const found = () => bars.filter(({ name }) => name.toLowerCase().includes(field.value.trim().toLowerCase()));
  field.addEventListener("input", () => {
    const matches = new Set(found());
    bars.forEach((bar) => bar.group.classList.toggle("dim", !matches.has(bar)));
  });
  field.addEventListener("keydown", (event) => {
    const widest = found().sort((one, other) => other.width - one.width)[0];
    if (event.key === "Enter" && widest) zoom(widest);
  });
  flame.addEventListener("click", (event) => {
    const bar = bars.find(({ group }) => group.contains(event.target));
    if (bar) zoom(bar);
  });
  const bar = document.createElement("div");
  bar.className = "flame-bar";
  bar.append(field, reset);
  flame.parentElement.before(bar);
  flame.classList.add("zooms");
}
