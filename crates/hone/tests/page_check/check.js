// What a page has to hold in a browser. Each function of `look` answers the faults that it found, as sentences.
// The test evaluates this file over the debugging protocol, so the page's own policy stays in force.
window.look = (() => {
  // Pixels that rounding may cost.
  const SLACK = 1.5;
  // Glyphs fill this part of their box's height at most, so that lines close to each other do not count as overlapping.
  const GLYPHS = 0.64;
  // Faults that one check names; more are counted.
  const MOST = 6;

  const limited = (faults, check) => {
    const once = [...new Set(faults)];
    const more = once.length - MOST;
    return more > 0 ? [...once.slice(0, MOST), `${check}: ${more} more`] : once;
  };
  const clean = (text) => (text ?? "").replace(/\s+/g, " ").trim();
  const short = (text) => (clean(text).length > 48 ? `${clean(text).slice(0, 47)}…` : clean(text));
  const described = (element) => {
    const id = element.id ? `#${element.id}` : "";
    const classes = [...element.classList].map((name) => `.${name}`).join("");
    const text = short(element.textContent);
    return `<${element.localName}${id}${classes}>${text ? ` "${text}"` : ""}`;
  };
  const isVisible = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });

  // The answer for an element, from that of its parent; each is computed once.
  const inherited = (step, first) => {
    const known = new Map();
    const of = (element) => {
      if (!element) return first;
      if (!known.has(element)) known.set(element, step(element, of(element.parentElement)));
      return known.get(element);
    };
    return of;
  };

  // Boxes

  const EVERYWHERE = { left: -Infinity, right: Infinity, top: -Infinity, bottom: Infinity };
  const common = (one, other) => ({
    left: Math.max(one.left, other.left),
    right: Math.min(one.right, other.right),
    top: Math.max(one.top, other.top),
    bottom: Math.min(one.bottom, other.bottom),
  });
  const width = (box) => box.right - box.left;
  const height = (box) => box.bottom - box.top;

  // How the ancestors of an element limit what is seen of it.
  const frames = () =>
    inherited((element, outer) => {
      const style = getComputedStyle(element);
      const isDrawing = element instanceof SVGElement;
      const scrolls = outer.scrolls || (!isDrawing && ["auto", "scroll"].includes(style.overflowX));
      const cuts = !isDrawing && element !== document.body && element !== document.documentElement
        && (style.overflowX !== "visible" || style.overflowY !== "visible");
      const seen = cuts ? common(outer.seen, element.getBoundingClientRect()) : outer.seen;
      // What lies above the page by design: menus, hints, sticky heads.
      const lifted = ["absolute", "fixed", "sticky"].includes(style.position)
        && colour(style.backgroundColor)[3] > 0.9;
      return { scrolls, seen, above: lifted ? element : outer.above };
    }, { scrolls: false, seen: EVERYWHERE, above: null });

  // What is there for screen readers only has one pixel.
  const isSeen = (box) => width(box) > SLACK && height(box) > SLACK;

  const isTurned = (element) => {
    const matrix = element instanceof SVGGraphicsElement ? element.getScreenCTM() : null;
    return matrix !== null && Math.abs(matrix.b) > Math.abs(matrix.a);
  };

  // The part of a line's box that its glyphs can fill.
  const glyphs = (box, turned) => {
    const margin = ((1 - GLYPHS) / 2) * (turned ? width(box) : height(box));
    const [x, y] = turned ? [margin, 0] : [0, margin];
    return { left: box.left + x, right: box.right - x, top: box.top + y, bottom: box.bottom - y };
  };

  // Every line of text that is seen: its node's number, its element, its box.
  const lines = (frame) => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    for (let node = walker.nextNode(), number = 0; node; node = walker.nextNode(), number++) {
      const element = node.parentElement;
      if (!clean(node.nodeValue) || element.closest("script, style, title, desc, option, noscript")) continue;
      if (!isVisible(element)) continue;
      range.selectNodeContents(node);
      const { seen, above, scrolls } = frame(element);
      const turned = isTurned(element);
      for (const rect of range.getClientRects()) {
        const box = common(rect, seen);
        if (isSeen(box)) found.push({ number, element, above, scrolls, rect, box: glyphs(box, turned), text: node.nodeValue });
      }
    }
    return found;
  };

  const areApart = (one, other) =>
    one.number === other.number
    || (one.above !== other.above
      && ((one.above && !one.above.contains(other.element)) || (other.above && !other.above.contains(one.element))));

  const overlaps = (all) => {
    const faults = [];
    const sorted = [...all].sort((one, other) => one.box.top - other.box.top);
    let open = [];
    for (const line of sorted) {
      open = open.filter((other) => other.box.bottom > line.box.top + SLACK);
      for (const other of open) {
        const shared = common(line.box, other.box);
        if (width(shared) > SLACK && height(shared) > SLACK && !areApart(line, other)) {
          faults.push(`texts overlap: "${short(other.text)}" and "${short(line.text)}"`);
        }
      }
      open.push(line);
    }
    return limited(faults, "texts overlap");
  };

  const outside = (all, frame) => {
    const faults = [];
    const page = document.documentElement;
    const right = page.clientWidth;
    if (page.scrollWidth > right) faults.push(`the page scrolls sideways: ${page.scrollWidth} px in ${right} px`);
    const leaves = (box) => box.right > right + SLACK || box.left < -SLACK;
    const bad = new Set();
    for (const element of document.body.querySelectorAll("*")) {
      if (element.ownerSVGElement || !isVisible(element)) continue;
      const box = element.getBoundingClientRect();
      const { scrolls, seen } = frame(element.parentElement);
      if (scrolls || !isSeen(box) || !isSeen(common(seen, box)) || !leaves(box)) continue;
      bad.add(element);
      if (!bad.has(element.parentElement)) faults.push(`leaves the page: ${described(element)}`);
    }
    for (const { element, rect, scrolls, text } of all) {
      if (!scrolls && leaves(rect) && element.ownerSVGElement) faults.push(`leaves the page: "${short(text)}" of a drawing`);
    }
    return limited(faults, "leaves the page");
  };

  // Text of a drawing that its edge cuts.
  const cut = (all) => {
    const faults = [];
    for (const { element, rect, text } of all) {
      const drawing = element.ownerSVGElement;
      if (!drawing || getComputedStyle(drawing).overflow === "visible") continue;
      const edge = drawing.getBoundingClientRect();
      const isCut = rect.left < edge.left - SLACK || rect.right > edge.right + SLACK
        || rect.top < edge.top - 3 * SLACK || rect.bottom > edge.bottom + 3 * SLACK;
      if (isCut) faults.push(`cut by its drawing's edge: "${short(text)}"`);
    }
    return limited(faults, "cut by its drawing's edge");
  };

  // Nobody scrolls on paper.
  const cutOnPaper = () => {
    const faults = [];
    for (const element of document.body.querySelectorAll("*")) {
      if (element instanceof SVGElement || !isVisible(element) || element.clientWidth <= 1) continue;
      if (getComputedStyle(element).overflowX !== "visible" && element.scrollWidth > element.clientWidth + SLACK) {
        faults.push(`cut on paper: ${described(element)} has ${element.scrollWidth} px in ${element.clientWidth} px`);
      }
    }
    return limited(faults, "cut on paper");
  };

  const boxes = (isPaper) => {
    const frame = frames();
    const all = lines(frame);
    return [...outside(all, frame), ...overlaps(all), ...cut(all), ...(isPaper ? cutOnPaper() : [])];
  };

  // The verdict, without scrolling

  const verdict = () => {
    const found = document.querySelector(".verdict-word") ?? document.querySelector(".sentence");
    if (!found || !isVisible(found)) return ["no verdict: nothing has the class verdict-word or sentence"];
    const box = found.getBoundingClientRect();
    const isThere = box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight + SLACK && box.right <= innerWidth + SLACK;
    return isThere ? [] : [`the verdict is not in the first screen: it ends at ${Math.round(box.bottom)} px of ${innerHeight} px`];
  };

  // Contrast of drawings, which axe leaves out

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  // Red, green and blue from 0 to 255, and alpha from 0 to 1.
  const colour = (text) => {
    if (!colours.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = "transparent";
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      colours.set(text, [red, green, blue, alpha / 255]);
    }
    return colours.get(text);
  };
  const over = (top, below, opacity = 1) => {
    const alpha = top[3] * opacity;
    return [0, 1, 2].map((part) => top[part] * alpha + below[part] * (1 - alpha)).concat(1);
  };
  const luminance = (rgb) => {
    const linear = rgb.slice(0, 3).map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ratio = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const isColour = (paint) => paint !== "none" && !paint.startsWith("url(");
  const opacity = (element, end) => {
    let product = 1;
    for (let at = element; at && at !== end; at = at.parentElement) product *= Number(getComputedStyle(at).opacity);
    return product;
  };
  // The colour behind an element of the page.
  const surfaces = () => {
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    return inherited(
      (element, under) => over(colour(getComputedStyle(element).backgroundColor), under),
      isDark ? [18, 18, 18, 1] : [255, 255, 255, 1],
    );
  };

  // The colour below a point of a drawing: that of the page, and of all shapes that are drawn before the element.
  const below = (element, surface, x, y) => {
    const drawing = element.ownerSVGElement;
    let found = surface(drawing);
    for (const shape of drawing.querySelectorAll("rect, circle, ellipse, path, polygon")) {
      if (!(shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
      const style = getComputedStyle(shape);
      if (!isColour(style.fill) || !isVisible(shape) || shape.closest("defs, clipPath, mask, pattern, symbol")) continue;
      const matrix = shape.getScreenCTM();
      if (!matrix || !shape.isPointInFill(new DOMPoint(x, y).matrixTransform(matrix.inverse()))) continue;
      found = over(colour(style.fill), found, Number(style.fillOpacity) * opacity(shape, drawing));
    }
    return found;
  };

  // The contrast of a drawing's text, if it is too low.
  const lowContrast = (element, surface) => {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (!isColour(style.fill) || !isSeen(box)) return null;
    const halo = style.paintOrder.startsWith("stroke") && isColour(style.stroke) && parseFloat(style.strokeWidth) >= 2;
    const ground = halo ? over(colour(style.stroke), surface(element.ownerSVGElement))
      : below(element, surface, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
    const ink = over(colour(style.fill), ground, Number(style.fillOpacity) * opacity(element, element.ownerSVGElement));
    const matrix = element.getScreenCTM();
    const size = parseFloat(style.fontSize) * Math.hypot(matrix.a, matrix.b);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const found = ratio(ink, ground);
    return found < (isLarge ? 3 : 4.5) - 0.01 ? found : null;
  };

  const drawings = () => {
    const surface = surfaces();
    const faults = [];
    for (const element of document.querySelectorAll("svg text, svg tspan")) {
      const hasOwnText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && clean(node.nodeValue));
      if (!hasOwnText || !isVisible(element)) continue;
      const found = lowContrast(element, surface);
      if (found !== null) faults.push(`contrast of a drawing's text is ${found.toFixed(2)}: "${short(element.textContent)}"`);
    }
    return limited(faults, "contrast of drawings");
  };

  // Names for screen readers

  const named = (element) => {
    const ids = (element.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean);
    const labels = ids.map((id) => document.getElementById(id)?.textContent);
    return clean([element.getAttribute("aria-label"), ...labels].join(" "));
  };
  const nameOf = (element, child) => named(element) || clean(element.querySelector(`:scope > ${child}`)?.textContent);

  const names = () => {
    const faults = [];
    const heads = [...document.querySelectorAll("h1")].filter((head) => isVisible(head));
    if (heads.length !== 1) faults.push(`the page has ${heads.length} h1`);
    const all = (selector) => [...document.querySelectorAll(selector)].filter((element) => !element.closest("[aria-hidden=true]"));
    for (const picture of all("svg, [role=img]")) {
      if (picture.getAttribute("role") !== "img") faults.push(`a drawing is neither hidden nor an image: ${described(picture)}`);
      else if (!nameOf(picture, "title")) faults.push(`an image has no name: ${described(picture)}`);
    }
    for (const figure of all("figure")) {
      if (!nameOf(figure, "figcaption")) faults.push(`a figure has no name: ${described(figure)}`);
    }
    for (const table of all("table")) {
      if (!nameOf(table, "caption")) faults.push(`a table has no caption: ${described(table)}`);
    }
    return limited(faults, "names");
  };

  // Keys

  const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex], area[href], iframe";
  const expected = () =>
    [...document.querySelectorAll(FOCUSABLE)].filter((element) => {
      const isChoice = element.type === "radio" && !element.checked && document.querySelector(`input[name="${element.name}"]:checked`);
      return element.tabIndex >= 0 && !element.disabled && element.type !== "hidden" && !isChoice && element.checkVisibility({ visibilityProperty: true });
    });

  let visited = [];
  let isOver = false;
  const note = () => {
    const element = document.activeElement;
    if (isOver) return;
    if (element === document.body || visited.some((known) => known.element === element)) {
      isOver = visited.length > 0;
      return;
    }
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const isMarked = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
    const isInView = isSeen(box) && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
    visited.push({ element, isMarked, isInView });
  };
  const listen = () => {
    visited = [];
    isOver = false;
    getSelection().removeAllRanges();
    document.activeElement.blur();
    addEventListener("keydown", (event) => event.key === "Tab" && note(), true);
    return expected().length;
  };
  // Whether Tab has left the last element.
  const ended = () => {
    note();
    return isOver;
  };
  const keys = () => {
    note();
    const faults = [];
    visited.forEach(({ element, isMarked, isInView }, index) => {
      if (!isMarked) faults.push(`the focus can't be seen: ${described(element)}`);
      if (!isInView) faults.push(`the focus is outside of the window: ${described(element)}`);
      const before = visited[index - 1]?.element;
      if (before && !(before.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)) {
        faults.push(`Tab goes back in the page: from ${described(before)} to ${described(element)}`);
      }
    });
    const reached = new Set(visited.map(({ element }) => element));
    for (const element of expected()) {
      if (!reached.has(element)) faults.push(`Tab does not lead to ${described(element)}`);
    }
    return limited(faults, "keys");
  };

  // Until the last change of the window is drawn.
  const settle = async () => {
    document.getAnimations().forEach((animation) => animation.finish());
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    scrollTo(0, 0);
  };

  // Folded parts

  let unfolded = [];
  const unfold = () => {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    unfolded.forEach((details) => { details.open = true; });
  };
  const fold = () => unfolded.forEach((details) => { details.open = false; });

  // Rules of axe

  const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
  // Rules whose answer depends on the colour scheme.
  const COLOURS = ["color-contrast", "link-in-text-block"];
  const rules = async (areColours) => {
    const found = await axe.run(document, {
      runOnly: areColours ? { type: "rule", values: COLOURS } : { type: "tag", values: TAGS },
      resultTypes: ["violations"],
      preload: false,
      iframes: false,
    });
    const why = (node) => clean(node.failureSummary).replace(/^Fix (any|all) of the following: /, "");
    const sentences = ({ id, nodes }) =>
      limited(nodes.map((node) => `axe ${id}: ${node.target.flat().join(" ")}: ${why(node)}`), `axe ${id}`);
    return found.violations.flatMap(sentences);
  };

  return { boxes, verdict, drawings, names, listen, ended, keys, settle, unfold, fold, rules };
})();
