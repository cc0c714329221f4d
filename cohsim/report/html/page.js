"use strict";
// Sorting, filtering and drawing for one page; no library, nothing fetched. Figures are drawn at the width of their column, so that text keeps its size.
(() => {
  const data = JSON.parse(document.getElementById("charts").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const number = new Intl.NumberFormat("en-US");
  const hidden = new Set();          // categories the reader has switched off

  // ------------------------------------------------------------------------------------------------------------ tables
  const tables = new Map();

  function value(cell) {
    const v = cell.dataset.v;
    if (v === undefined) return cell.textContent.trim().toLowerCase();
    return v === "" ? null : Number(v);
  }

  function compare(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);       // cells without a value come last either way
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", {numeric: true}));
  }

  function sort(table, column) {
    const heads = [...table.tHead.rows[0].cells];
    const numeric = heads[column].classList.contains("n");
    const before = heads[column].getAttribute("aria-sort");
    const now = before ? (before === "ascending" ? "descending" : "ascending") : (numeric ? "descending" : "ascending");
    heads.forEach((head, i) => i === column ? head.setAttribute("aria-sort", now) : head.removeAttribute("aria-sort"));
    const sign = now === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row, i) => ({row, i, v: value(row.cells[column])}));
    rows.sort((a, b) => compare(a.v, b.v, sign) || a.i - b.i);
    table.tBodies[0].append(...rows.map(r => r.row));
    show(table);
  }

  function show(table) {
    const state = tables.get(table.id);
    let shown = 0, found = 0;
    for (const row of table.tBodies[0].rows) {
      const match = !state.wanted || row.textContent.toLowerCase().includes(state.wanted);
      found += match;
      row.hidden = !match || (!state.all && shown >= state.first);
      shown += !row.hidden;
    }
    state.count.textContent = found === shown ? `${number.format(found)} rows` : `${number.format(shown)} of ${number.format(found)} rows`;
    state.more.hidden = found === shown;
    state.more.textContent = `Show all ${number.format(found)} rows`;
  }

  for (const table of document.querySelectorAll("table")) {
    const of = name => document.querySelector(`[data-${name}="${table.id}"]`);
    const state = {first: Number(table.dataset.first), all: false, wanted: "", count: of("count"), more: of("more")};
    tables.set(table.id, state);
    [...table.tHead.rows[0].cells].forEach((head, i) => head.firstElementChild.addEventListener("click", () => sort(table, i)));
    of("filter").addEventListener("input", event => { state.wanted = event.target.value.trim().toLowerCase(); show(table); });
    state.more.addEventListener("click", () => { state.all = true; show(table); });
    show(table);
  }

  // --------------------------------------------------------------------------------------------------------------- tip
  const tip = document.getElementById("tip");

  function place(x, y) {
    tip.hidden = false;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - w - 4))}px`;
    tip.style.top = `${y + 16 + h > innerHeight ? Math.max(4, y - h - 10) : y + 16}px`;
  }

  function explain(element, text) {
    element.addEventListener("pointermove", event => { tip.textContent = text(); place(event.clientX, event.clientY); event.stopPropagation(); });
    element.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  function explainFocus(element, text) {
    element.addEventListener("focus", () => {
      if (!element.matches(":focus-visible")) return;
      const box = element.getBoundingClientRect();
      tip.textContent = text();
      place(box.left, box.bottom - 12);
    });
    element.addEventListener("blur", () => { tip.hidden = true; });
  }
  document.addEventListener("keydown", event => { if (event.key === "Escape") tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, {passive: true});

  // ------------------------------------------------------------------------------------------------------------ charts
  function make(name, attributes, parent, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, v] of Object.entries(attributes)) element.setAttribute(key, v);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  }

  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const wide = text => ruler.measureText(text).width;

  function shorten(text, width) {
    if (wide(text) <= width) return text;
    let n = text.length;
    while (n > 1 && wide(text.slice(0, n) + "…") > width) n--;
    return text.slice(0, n) + "…";
  }

  const percent = v => v >= 9.95 ? v.toFixed(0) : v.toFixed(1);

  function bars(holder, chart) {
    const width = holder.clientWidth, step = chart.rows.length > 16 ? 18 : 24, tall = step - 5, top = 4;
    const left = Math.min(Math.max(...chart.rows.map(r => wide(r.label)), 0) + 10, width * 0.42);
    const on = row => row.parts.map((v, i) => [data.categories[i], v]).filter(([c, v]) => v > 0 && !hidden.has(c.name));
    const sum = row => on(row).reduce((total, [, v]) => total + v, 0);
    const limit = chart.limit ?? Math.max(...chart.rows.map(sum), 0.1);
    const scale = (width - left - 46) / limit;
    const svg = make("svg", {viewBox: `0 0 ${width} ${chart.rows.length * step + top}`, height: chart.rows.length * step + top, role: "group", "aria-label": `${chart.title}, ${chart.unit}`});
    chart.rows.forEach((row, n) => {
      const parts = on(row).sort((a, b) => (a[0].name === "idle") - (b[0].name === "idle") || b[1] - a[1]);
      const all = () => [`${row.label}: ${sum(row).toFixed(1)} ${chart.unit}`, ...parts.slice(0, 6).map(([c, v]) => `${v.toFixed(1)} ${c.name}: ${c.meaning}`)].join("\n");
      const group = make("g", {class: "row", tabindex: 0, role: "img", "aria-label": all().replaceAll("\n", ", ")}, svg);
      const y = top + n * step;
      make("rect", {class: "hit", x: 0, y: y - 2, width, height: step}, group);
      make("text", {x: left - 6, y: y + tall / 2 + 4, "text-anchor": "end"}, group, shorten(row.label, left - 8));
      explain(group, all);
      explainFocus(group, all);
      let x = left;
      for (const [category, v] of parts) {
        const part = make("rect", {class: "part", x, y, width: v * scale, height: tall, fill: category.colour}, group);
        explain(part, () => `${row.label}\n${v.toFixed(2)} ${chart.unit}\n${category.name}: ${category.meaning}`);
        x += v * scale;
      }
      const busy = chart.limit ? parts.filter(([c]) => c.name !== "idle").reduce((t, [, v]) => t + v, 0) : sum(row);
      make("text", {class: "soft", x: x + 4, y: y + tall / 2 + 4}, group, `${percent(busy)} %`);
    });
    holder.replaceChildren(svg);
  }

  function heat(holder, chart) {
    const flat = chart.values.flat(), most = Math.max(...flat, 0);
    if (!most) { holder.replaceChildren(Object.assign(document.createElement("p"), {textContent: "Nothing to show: all counts are 0."})); return; }
    const width = holder.clientWidth;
    const left = Math.min(Math.max(...chart.rows.map(wide)) + 10, width * 0.4);
    const column = Math.min((width - left) / chart.columns.length, 90);
    const step = chart.log ? 28 : Math.max(14, Math.min(column, 44));
    const slanted = Math.max(...chart.columns.map(wide)) > column - 4;
    const foot = slanted ? Math.max(...chart.columns.map(wide)) + 12 : 22;
    const height = chart.rows.length * step + foot;
    const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": chart.title});
    const strength = v => v <= 0 ? 0 : chart.log ? 0.12 + 0.88 * Math.log(v) / Math.max(Math.log(most), 1e-9) : v / most;
    const short = v => v >= 1e6 ? `${(v / 1e6).toFixed(1)}M` : v >= 1e4 ? `${Math.round(v / 1e3)}k` : v >= 1e3 ? `${(v / 1e3).toFixed(1)}k` : String(v);
    const roomy = step >= 16 && Math.max(...flat.map(v => wide(short(v)))) < column - 3;      // all numbers or none
    const same = chart.rows.join("\n") === chart.columns.join("\n");
    chart.rows.forEach((row, r) => {
      make("text", {x: left - 6, y: r * step + step / 2 + 4, "text-anchor": "end"}, svg, shorten(row, left - 8));
      chart.columns.forEach((name, c) => {
        const v = chart.values[r][c], s = strength(v);
        const text = () => chart.axis ? `${row}, ${name}${chart.columns[c + 1] ? ` to ${chart.columns[c + 1]}` : " or more"} ${chart.axis}\n${number.format(v)} ${chart.unit}`
          : `${same ? `from ${row} to ${name}` : `${row}, ${name}`}\n${number.format(v)} ${chart.unit}`;
        const cell = make("rect", {class: "cell", x: left + c * column, y: r * step, width: Math.max(column - 1, 1), height: step - 1, role: "img", "aria-label": text().replace("\n", ": "),
          style: `fill: color-mix(in srgb, var(--heat) ${Math.round(100 * s)}%, var(--shade))`}, svg);
        if (v) { cell.setAttribute("tabindex", 0); explainFocus(cell, text); }
        explain(cell, text);
        if (v && roomy)
          make("text", {x: left + (c + 0.5) * column, y: r * step + step / 2 + 4, "text-anchor": "middle", "pointer-events": "none", style: s > 0.7 ? "fill: #ffffff" : ""}, svg, short(v));
      });
    });
    const every = Math.ceil(chart.columns.length * 16 / Math.max(width - left, 1));
    chart.columns.forEach((name, c) => {
      if (slanted && c % every) return;
      const x = chart.axis ? left + c * column + 2 : left + (c + 0.5) * column, y = chart.rows.length * step + 14;
      make("text", slanted ? {class: "soft", "text-anchor": "end", transform: `translate(${x + 4} ${y - 6}) rotate(-90)`} : {class: "soft", x, y, "text-anchor": chart.axis ? "start" : "middle"}, svg, name);
    });
    holder.replaceChildren(svg);
  }

  function draw() {
    tip.hidden = true;
    for (const holder of document.querySelectorAll("[data-bars]")) bars(holder, data.bars[holder.dataset.bars]);
    for (const holder of document.querySelectorAll("[data-heat]")) heat(holder, data.heats[holder.dataset.heat]);
  }

  const legend = document.getElementById("legend");
  data.categories.forEach((category, i) => {
    if (!data.bars.some(chart => chart.rows.some(row => row.parts[i] >= 0.05))) return;
    const button = document.createElement("button");
    const patch = document.createElement("i");
    patch.style.background = category.colour;
    button.type = "button";
    button.dataset.category = category.name;
    button.setAttribute("aria-pressed", "true");
    button.title = category.meaning;
    button.append(patch, `${category.name}: ${category.meaning}`);
    button.addEventListener("click", () => {
      if (hidden.delete(category.name) === false) hidden.add(category.name);
      button.setAttribute("aria-pressed", String(!hidden.has(category.name)));
      draw();
    });
    legend.append(button);
  });

  draw();
  let last = document.body.clientWidth;
  addEventListener("resize", () => { if (document.body.clientWidth !== last) { last = document.body.clientWidth; draw(); } });
})();
