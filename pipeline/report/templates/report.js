"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const figures = JSON.parse(byId("figures-data").textContent);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const THEMES = ["system", "light", "dark"];
  let theme = "system";
  let printing = false;

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  /* Text and lines of the figures have the colours of the page. */
  function looks(layout) {
    const found = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", "font.color": colour("text"),
      "font.family": getComputedStyle(document.body).fontFamily,
      "hoverlabel.bgcolor": colour("card"), "hoverlabel.bordercolor": colour("quiet"), "hoverlabel.font.color": colour("text"),
      "hoverlabel.align": "left", "hoverlabel.font.family": getComputedStyle(document.body).fontFamily, "modebar.color": colour("quiet"), "modebar.activecolor": colour("text"), "modebar.bgcolor": "rgba(0,0,0,0)",
    };
    for (const axis of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
      for (const part of ["gridcolor", "linecolor", "zerolinecolor"]) found[`${axis}.${part}`] = colour("line");
    }
    return found;
  }

  function withLooks(layout) {
    const copy = structuredClone(layout);
    for (const [path, value] of Object.entries(looks(layout))) {
      const keys = path.split(".");
      const last = keys.pop();
      keys.reduce((at, key) => (at[key] ??= {}), copy)[last] = value;
    }
    return copy;
  }

  const drawn = new Set();
  function draw(box) {
    if (drawn.has(box)) return;
    drawn.add(box);
    const { data, layout } = figures[box.id];
    Plotly.newPlot(box, data, withLooks(layout), {
      responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
    });
  }

  const boxes = [...document.querySelectorAll(".figure")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "600px" });

  function applyTheme() {
    root.classList.toggle("dark", !printing && (theme === "dark" || (theme === "system" && system.matches)));
    byId("theme").textContent = "Theme: " + theme;
    for (const box of drawn) Plotly.relayout(box, looks(figures[box.id].layout));
  }
  applyTheme();
  boxes.forEach((box) => seen.observe(box));
  system.addEventListener("change", applyTheme);
  byId("theme").addEventListener("click", () => { theme = THEMES[(THEMES.indexOf(theme) + 1) % 3]; applyTheme(); });

  /* Paper is white, and narrower than a screen. */
  addEventListener("beforeprint", () => {
    printing = true;
    boxes.forEach(draw);
    applyTheme();
    for (const box of boxes) Plotly.relayout(box, { width: Math.min(box.clientWidth, 700) });
  });
  addEventListener("afterprint", () => {
    printing = false;
    applyTheme();
    for (const box of boxes) Plotly.relayout(box, { width: null, autosize: true });
  });

  for (const button of document.querySelectorAll("[data-unit]")) {
    button.addEventListener("click", () => {
      const unit = button.dataset.unit;
      document.querySelectorAll("[data-unit]").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      draw(byId("traffic"));
      Plotly.update("traffic", { visible: figures.traffic.data.map((one) => one.meta === unit) }, { "yaxis.title.text": unit + " a second", "yaxis.autorange": true });
    });
  }

  /* A link to a finding opens it. */
  function openTarget() {
    const target = location.hash.startsWith("#finding-") && byId(location.hash.slice(1));
    if (target) { target.open = true; target.scrollIntoView(); }
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  const table = byId("findings-table");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const [filter, kind, matching] = ["filter", "kind", "matching"].map(byId);
  const severities = [...document.querySelectorAll("input[data-severity]")];

  function select() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const on = new Set(severities.filter((box) => box.checked).map((box) => box.dataset.severity));
    let number = 0;
    for (const { row, text } of rows) {
      const shown = on.has(row.dataset.severity) && (!kind.value || row.dataset.kind === kind.value) && words.every((word) => text.includes(word));
      row.hidden = !shown;
      number += shown;
    }
    matching.textContent = number === rows.length ? "" : `${number} of ${rows.length} shown`;
  }
  filter.addEventListener("input", select);
  kind.addEventListener("change", select);
  severities.forEach((box) => box.addEventListener("change", select));
  for (const link of document.querySelectorAll(".kinds a")) {
    link.addEventListener("click", () => { kind.value = link.dataset.kind; filter.value = ""; severities.forEach((box) => { box.checked = true; }); select(); });
  }
  body.addEventListener("click", (event) => {
    const target = event.target.closest("tr")?.dataset.target;
    if (target && !event.target.closest("a") && !String(getSelection())) { location.hash = target; openTarget(); }
  });

  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    head.tabIndex = 0;
    const sort = () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const value = (row) => (head.dataset.type ? Number(row.cells[at].dataset.order) : row.cells[at].textContent.trim().toLowerCase());
      const ordered = rows.map(({ row }) => row).sort((a, b) => {
        const [left, right] = [value(a), value(b)];
        return typeof left === "number" ? left - right : left.localeCompare(right, "en", { numeric: true });
      });
      if (falling) ordered.reverse();
      body.append(...ordered);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
})();
