"use strict";
(() => {
  const map = document.getElementById("map");
  const data = JSON.parse(document.getElementById("data").textContent);
  const LEVELS = [
    { name: "region", unit: 2097152, sub: 4096, inner: 32 },
    { name: "page", unit: 4096, sub: 64, inner: 8 },
    { name: "line", unit: 64, sub: 1, inner: 8 },
    { name: "byte", unit: 1, sub: 1, inner: 1 },
  ];
  const SIZES = ["2 MiB", "4 KiB", "64 B", "1 B"];
  const STOPS = data.stops;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hex = (value) => "0x" + value.toString(16);
  const percent = (share) => (share >= 1e-4 ? (100 * share).toPrecision(3) : share > 0 ? "< 0.01" : "0") + " %";
  const down = (value, unit) => value - (value % unit);
  const many = (value, one, more) => value.toLocaleString("en") + " " + (value === 1 ? one : more);

  const sides = data.sides.map((raw, index) => {
    const pages = new Map(), lines = new Map(), regions = new Map();
    for (const [page, share, count, used] of raw.pages) {
      pages.set(page * 4096, { share, lines: count, used });
      const region = down(page * 4096, LEVELS[0].unit);
      regions.set(region, (regions.get(region) || 0) + share);
    }
    let number = 0;
    for (const [step, share, mask, ...place] of raw.lines) {
      number += step;
      const bits = [];
      for (let byte = 0; byte < 64; byte++) bits.push((parseInt(mask[15 - (byte >> 2)], 16) >> (byte & 3)) & 1);
      lines.set(number * 64, { share, bits, sampled: raw.sampled, used: bits.reduce((sum, bit) => sum + bit, 0), place });
    }
    const functions = raw.functions.map(([name, begin, bytes, share, rank, joined = name]) =>
      ({ name, begin, end: begin + Math.max(bytes, 1), share, rank, joined }));
    const figure = document.getElementById("side-" + index);
    return { index, raw, pages, lines, regions, functions, base: 0, cursor: 0, hover: null,
      canvas: figure.querySelector("canvas"), info: figure.querySelector(".info"), where: figure.querySelector(".where") };
  });

  // One scale: the hottest of both sides, for each unit.
  const top = (of) => Math.max(1e-300, ...sides.map((side) => [...of(side).values()].reduce((most, cell) => Math.max(most, cell.share ?? cell), 0)));
  const MOST = [top((side) => side.pages), top((side) => side.lines), top((side) => side.lines), top((side) => side.lines)];
  const first = Math.max(...sides.map((side) => side.regions.size)) > 1 ? 0 : 1;
  const state = { level: first, side: 0, path: [] };

  const hottest = (cells) => [...cells].reduce((best, cell) => ((cell[1].share ?? cell[1]) > best[1] ? [cell[0], cell[1].share ?? cell[1]] : best), [0, -1])[0];
  const heat = (share, level) => Math.min(1, Math.max(0, 1 + Math.log10(share / MOST[level]) / data.decades));
  const colour = (value) => {
    const at = (dark.matches ? value : 1 - value) * (STOPS.length - 1);
    const low = Math.min(STOPS.length - 2, Math.floor(at)), part = at - low;
    return "rgb(" + STOPS[low].map((from, channel) => Math.round(from + part * (STOPS[low + 1][channel] - from))).join(" ") + ")";
  };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

  const shareOf = (side, address, level) => level === 0 ? side.regions.get(address) || 0
    : level === 1 ? (side.pages.get(address) || {}).share || 0
    : level === 2 ? (side.lines.get(address) || {}).share || 0 : 0;

  // Addresses of the visible cells of one side. A region is trimmed to the rows with executed code.
  const columns = () => state.level === 0 ? Math.min(16, Math.max(...sides.map((side) => side.regions.size))) : state.level === 1 ? (Math.max(...sides.map((side) => span(side)[1])) <= 128 ? 16 : 32) : [16, 32, 8, 16][state.level];
  const span = (side) => {
    const touched = [...side.pages.keys()].filter((page) => down(page, LEVELS[0].unit) === side.base).sort((a, b) => a - b);
    if (!touched.length) return [side.base, 16];
    const begin = down(touched[0], 65536);
    return [begin, (down(touched[touched.length - 1], 65536) + 65536 - begin) / 4096];
  };
  const view = (side) => {
    if (state.level === 0) return [...side.regions.keys()].sort((a, b) => a - b);
    const [begin, count] = state.level === 1 ? span(side) : [side.base, 64];
    return Array.from({ length: count }, (_, index) => begin + index * LEVELS[state.level].unit);
  };

  const among = (side, begin, bytes) => side.functions.filter((one) => one.begin < begin + bytes && one.end > begin);
  const section = (side, address, unit) => {
    const found = side.raw.sections.filter(([, begin, bytes]) => begin < address + unit && begin + bytes > address).map(([name]) => name);
    return found.length ? " in " + found.slice(0, 6).join(", ") : "";
  };
  const named = (one) => one.name + " (rank " + one.rank + ", " + percent(one.share) + ")";

  // Source location, for programs with debug information.
  const written = (side, [file, line], before) => (file === undefined ? "" : before + side.raw.files[file] + ":" + line);

  function told(side, address) {
    const level = state.level, unit = LEVELS[level].unit;
    const share = shareOf(side, address, level);
    const out = [LEVELS[level].name + " " + hex(address) + section(side, address, unit)];
    if (level === 3) return toldOfByte(side, address);
    out.push(share > 0 ? percent(share) + " of the execution" : side.raw.sampled ? "no sample was taken here" : "nothing ran here");
    if (level === 1 && share > 0) {
      const page = side.pages.get(address);
      if (side.raw.sampled) out.push(page.lines + " of 64 lines have samples; others may have run, too");
      else out.push(page.lines + " of 64 lines ran; of these " + many(page.used, "byte ran", "bytes ran") + " and " + Math.max(0, 64 * page.lines - page.used).toLocaleString("en") + " did not");
    }
    if (level === 2 && share > 0) {
      const line = side.lines.get(address);
      if (side.raw.sampled) out.push(many(line.used, "instruction has", "instructions have") + " samples; it is unknown which bytes ran");
      else out.push(line.used + " of 64 bytes ran, " + (64 - line.used) + " did not");
      if (line.place.length) out.push(written(side, line.place, "written in "));
      out.push(...blocksOf(side, address));
    }
    const names = among(side, address, unit);
    out.push(...names.slice(0, 4).map(named));
    if (!names.length && share > 0) out.push("no function name is known here");
    if (names.length > 4) out.push("and " + many(names.length - 4, "other function", "other functions"));
    return out.join("\n");
  }
  function blocksOf(side, address) {
    const blocks = side.raw.blocks.filter(([begin, bytes]) => begin < address + 64 && begin + bytes > address);
    return blocks.slice(0, 6).map((block) => toldOfBlock(side, block));
  }
  const toldOfBlock = (side, [begin, bytes, instructions, count, ...place]) => "block " + hex(begin) + ": " + bytes + " B, " +
    many(instructions, "instruction", "instructions") + ", ran " + many(count, "time", "times") + written(side, place, ", ");
  function toldOfByte(side, address) {
    const line = side.lines.get(down(address, 64));
    const ran = line && line.bits[address % 64];
    const out = ["byte " + hex(address) + section(side, address, 1), side.raw.sampled ? (ran ? "samples were taken here" : "no sample was taken here") : ran ? "it ran" : "it did not run"];
    if (line) out.push("its line has " + percent(line.share) + " of the execution");
    const blocks = side.raw.blocks.filter(([begin, bytes]) => begin <= address && begin + bytes > address);
    out.push(...blocks.map((block) => toldOfBlock(side, block)));
    if (ran && !blocks.length && !side.raw.sampled) out.push("its blocks are not in this file, because the line is cold");
    return out.concat(among(side, address, 1).map(named)).join("\n");
  }

  function draw(side) {
    const cells = view(side), across = columns(), level = LEVELS[state.level];
    const width = side.canvas.clientWidth || 400;
    const size = Math.min(width / across, state.level === 0 ? 256 : 64), rows = Math.max(1, Math.ceil(cells.length / across));
    const ratio = devicePixelRatio || 1;
    side.canvas.style.height = rows * size + "px";
    side.canvas.width = width * ratio;
    side.canvas.height = rows * size * ratio;
    side.size = size;
    side.across = across;
    const to = side.canvas.getContext("2d");
    to.scale(ratio, ratio);
    cells.forEach((address, index) => {
      const x = (index % across) * size, y = Math.floor(index / across) * size;
      drawCell(to, side, address, x, y, size);
      to.strokeStyle = style("--rule");
      to.lineWidth = 1;
      to.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    });
    const at = cells.indexOf(side.cursor);
    if (at >= 0 && (side.index === state.side || sides.length > 1)) {
      to.strokeStyle = style(side.index === state.side ? "--b" : "--soft");
      to.lineWidth = side.index === state.side ? 3 : 1.5;
      to.strokeRect((at % across) * size + 1.5, Math.floor(at / across) * size + 1.5, size - 3, size - 3);
    }
    const place = state.level === first ? "all executed code" : "at " + hex(side.base);
    side.where.textContent = SIZES[state.level] + " per cell, " + place + (level.sub < level.unit ? "; inside it " + SIZES[state.level + 1] : "; a bar marks the start of a block");
    side.info.textContent = told(side, side.hover ?? side.cursor);
  }
  function drawCell(to, side, address, x, y, size) {
    const level = LEVELS[state.level];
    if (state.level === 3) {
      const line = side.lines.get(down(address, 64));
      if (line) fillByte(to, line, address % 64, x, y, size);
      if (side.raw.blocks.some(([begin]) => begin === address)) {
        to.fillStyle = style("--ink");
        to.fillRect(x, y, 4, size);
      }
      return;
    }
    const line = state.level === 2 ? side.lines.get(address) : null;
    if (state.level === 2 && !line) return;
    const inner = level.inner, high = level.unit / level.sub / inner;
    const wide = (size - 2) / inner, tall = (size - 2) / high;
    for (let part = 0; part < inner * high; part++) {
      const left = x + 1 + (part % inner) * wide, above = y + 1 + Math.floor(part / inner) * tall;
      if (line) { fillByte(to, line, part, left, above, wide); continue; }
      const share = shareOf(side, address + part * level.sub, state.level + 1);
      if (share <= 0) continue;
      to.fillStyle = colour(heat(share, state.level));
      to.fillRect(left, above, Math.max(wide, 1), Math.max(tall, 1));
    }
  }
  // The executed bytes of a line have its colour. The other bytes were fetched in vain.
  function fillByte(to, line, byte, x, y, size) {
    if (line.bits[byte]) {
      to.fillStyle = colour(heat(line.share, 2));
      // Slightly larger than the byte, so that there is no gap between neighbours.
      to.fillRect(x, y, size + 0.6, size + 0.6);
      return;
    }
    // Samples do not show which code did not run.
    if (line.sampled) return;
    to.strokeStyle = style("--soft");
    to.lineWidth = 0.7;
    to.beginPath();
    for (let step = size > 20 ? size / 4 : size; step < 2 * size; step += size > 20 ? size / 4 : size) {
      const low = Math.max(0, step - size), high = Math.min(step, size);
      to.moveTo(x + low, y + high);
      to.lineTo(x + high, y + low);
    }
    to.stroke();
  }
  function drawLegend() {
    const canvas = document.getElementById("scale"), to = canvas.getContext("2d");
    for (let x = 0; x < canvas.width; x++) {
      to.fillStyle = colour(x / (canvas.width - 1));
      to.fillRect(x, 0, 1, canvas.height);
    }
    const most = MOST[state.level], unit = SIZES[Math.min(2, state.level + 1)];
    document.getElementById("low").textContent = percent(most / 10 ** data.decades);
    document.getElementById("high").textContent = percent(most) + " of the execution in " + unit;
  }
  function show() {
    sides.forEach(draw);
    drawLegend();
    map.dataset.level = LEVELS[state.level].name;
    map.dataset.side = state.side;
    map.dataset.cursors = sides.map((side) => hex(side.cursor)).join(" ");
    document.getElementById("in").disabled = state.level === 3;
    document.getElementById("out").disabled = state.level === first;
  }

  function enter(side, cell) {
    const unit = LEVELS[state.level].unit, cells = [];
    side.base = down(cell, unit);
    for (const [address, found] of state.level === 0 ? side.pages : side.lines) {
      if (address >= side.base && address < side.base + unit) cells.push([address, found]);
    }
    const line = side.lines.get(cell);
    side.cursor = state.level === 2 ? cell + Math.max(0, line ? line.bits.indexOf(1) : 0)
      : cells.length ? hottest(cells) : side.base;
  }
  // The other side shows the same function, or else its hottest cell.
  function counterpart(side, other, cell) {
    const unit = LEVELS[state.level].unit;
    for (const one of among(side, cell, unit)) {
      const same = other.functions.find((candidate) => candidate.joined === one.joined);
      if (!same) continue;
      const within = [...(state.level === 0 ? other.pages : other.lines)].filter(([address]) => address + 64 > same.begin && address < same.end);
      return down(within.length ? hottest(within) : same.begin, unit);
    }
    return other.cursor;
  }
  function zoomIn() {
    if (state.level === 3) return;
    const side = sides[state.side], cell = side.cursor;
    state.path.push(sides.map(({ base, cursor }) => ({ base, cursor })));
    const targets = sides.map((other) => (other === side ? cell : counterpart(side, other, cell)));
    sides.forEach((one, index) => { one.hover = null; enter(one, targets[index]); });
    state.level++;
    show();
  }
  function zoomOut() {
    if (state.level === first) return;
    const before = state.path.pop();
    sides.forEach((side, index) => Object.assign(side, before[index], { hover: null }));
    state.level--;
    show();
  }
  function move(by, across) {
    const side = sides[state.side], cells = view(side), at = cells.indexOf(side.cursor);
    const next = at + by * (across ? columns() : 1);
    if (next >= 0 && next < cells.length) side.cursor = cells[next];
    side.hover = null;
    show();
  }
  const KEYS = {
    ArrowLeft: () => move(-1, false), ArrowRight: () => move(1, false),
    ArrowUp: () => move(-1, true), ArrowDown: () => move(1, true),
    Enter: zoomIn, "+": zoomIn, "=": zoomIn, Escape: zoomOut, "-": zoomOut, Backspace: zoomOut,
    s: () => { state.side = (state.side + 1) % sides.length; show(); },
  };
  map.addEventListener("keydown", (event) => {
    if (event.target.tagName === "BUTTON" && event.key === "Enter") return;
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  const under = (side, event) => {
    const box = side.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / side.size), row = Math.floor((event.clientY - box.top) / side.size);
    return column < side.across && column >= 0 ? view(side)[row * side.across + column] : undefined;
  };
  for (const side of sides) {
    side.canvas.addEventListener("mousemove", (event) => {
      side.hover = under(side, event) ?? null;
      side.info.textContent = told(side, side.hover ?? side.cursor);
    });
    side.canvas.addEventListener("mouseleave", () => { side.hover = null; side.info.textContent = told(side, side.cursor); });
    side.canvas.addEventListener("click", (event) => {
      const cell = under(side, event);
      if (cell === undefined) return;
      state.side = side.index;
      side.cursor = cell;
      map.focus({ preventScroll: true });
      zoomIn();
    });
    side.cursor = state.level === 0 ? hottest(side.regions) : hottest(side.pages);
    side.base = down(side.cursor, LEVELS[0].unit);
  }
  document.getElementById("in").addEventListener("click", zoomIn);
  document.getElementById("out").addEventListener("click", zoomOut);
  dark.addEventListener("change", show);
  addEventListener("resize", show);
  show();
})();
