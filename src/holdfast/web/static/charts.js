// The charts of the overview. Each also has a legend, which follows the pointer and the arrow keys,
// and a table of its numbers.

import { absolute, zone } from "./app.js";

const GAP = 60_000; // milliseconds between two looks at the server
const box = document.querySelector(".charts");
const plots = new Map(); // by name of the chart: the uPlot
let over = null; // what runs did over time
let recent = null; // what the newest runs say
let kind = ""; // the type of evidence that is shown; all of them if empty

// --- words

const count = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const counted = (value) => (value == null ? "–" : count.format(value));

function span(seconds) {
  if (seconds == null) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} m`;
  return `${Number((seconds / 86400).toFixed(1))} d`;
}

function size(bytes) {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (bytes < 1000 || unit === "GB") {
      return unit === "B" ? `${bytes} B` : `${Number(bytes.toPrecision(3))} ${unit}`;
    }
    bytes /= 1000;
  }
}

const date = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: zone(), ...options });

// Hours; at midnight, the day.
function axisTimes(_, splits) {
  const hour = date({ hour: "2-digit", minute: "2-digit" });
  const day = date({ day: "numeric", month: "short" });
  return splits.map((at) => {
    const text = hour.format(at * 1000);
    return text === "00:00" ? day.format(at * 1000) : text;
  });
}

// --- what each chart shows

const column = (name) => over.periods.map((period) => period[name]);
const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
const unread = (values) => values.map((value, place) => (place < recent.unread ? null : value));

function checks(outcome) {
  const types = kind ? [kind] : Object.keys(recent.checks);
  const lists = types.map((type) => recent.checks[type]?.[outcome] ?? []);
  return unread(recent.starts.map((_, place) => sum(lists.map((list) => list[place]))));
}

const bar = (label, color, values, rest) => ({ label, color, values, draw: "bar", ...rest });
const line = (label, color, values) => ({ label, color, values, draw: "line" });

const AGAIN = "A run that is continued after its end counts again when it ends again.";

const CHARTS = {
  runs: () => ({
    series: [
      bar("starts", "--run-b", column("started"), { side: -1 }),
      bar("completions", "--ok-b", column("completed"), { side: 1 }),
    ],
    limits: AGAIN,
  }),
  times: () => ({
    series: [
      line("95 % within", "--ask-b", column("p95")),
      line("half within", "--ok-b", column("median")),
    ],
    show: span,
    log: true,
    averages: true,
    limits: "Every run counts, rounded up to 1, 2, 4, 8 … ms.",
  }),
  failures: () => ({
    series: [
      bar("failures", "--bad-b", column("failed")),
      bar("cancellations", "--can-b", column("cancelled")),
    ],
    stacked: true,
    limits: AGAIN,
  }),
  saves: () => ({
    series: [bar("entries", "--ok-b", column("saves"))],
    limits: "Every run counts: one that is executed, every 64 entries.",
  }),
  bytes: () => ({
    series: [bar("bytes", "--run-b", unread(recent.bytes))],
    show: size,
    of: recent,
    limits: recent.limits,
  }),
  checks: () => ({
    series: [
      bar("verified", "--ok-b", checks("verified")),
      bar("failed", "--bad-b", checks("failed")),
      bar("undecided", "--can-b", checks("undecided")),
    ],
    stacked: true,
    of: recent,
    limits: recent.limits,
  }),
};

// --- drawing

// What a variable of the style sheet is in this theme: canvases know no light-dark().
function color(name) {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const starts = (chart) => (chart.of ? recent.starts : over.periods.map((period) => period.start));

// Stacked bars are drawn from the top down: each covers what is below it.
function heights(chart) {
  const lists = chart.series.map((series) => series.values);
  if (!chart.stacked) return lists;
  return lists.map((list, row) =>
    list.map((value, place) =>
      value == null ? null : sum(lists.slice(0, row + 1).map((one) => one[place])),
    ),
  );
}

function draw(name) {
  const card = document.getElementById(`chart-${name}`);
  const plot = card.querySelector(".plot");
  const place = plots.get(name)?.cursor.idx;
  plots.get(name)?.destroy();
  plots.delete(name);
  const chart = { show: counted, limits: "Every run counts.", ...CHARTS[name]() };
  const length = (chart.of ?? over).hours * 3600;
  const times = starts(chart);
  const blank = !chart.series.some((series) => sum(series.values));
  legend(card, chart, times, null);
  numbers(card, chart, times);
  card.querySelector(".limits").textContent = chart.limits;
  plot.setAttribute("aria-label", summary(card, chart));
  card.classList.toggle("blank", blank);
  if (blank) {
    plot.replaceChildren(nothing(name));
    return;
  }
  plot.replaceChildren();
  const ink = color("--ink3");
  const grid = { stroke: color("--line"), width: 1 };
  const style = getComputedStyle(document.body);
  const axis = { stroke: ink, font: `11px ${style.fontFamily}`, ticks: { show: false }, grid };
  const rows = heights(chart).map((values, row) => ({ ...chart.series[row], values }));
  if (chart.stacked) rows.reverse();
  const made = new uPlot(
    {
      width: plot.clientWidth,
      height: plot.clientHeight,
      padding: [10, 20, 0, 0],
      legend: { show: false },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), zone() ?? browserZone),
      cursor: {
        y: false,
        drag: { x: false, y: false },
        points: { show: false },
        sync: { key: "overview" },
      },
      scales: {
        x: { time: true, range: () => [times[0], times.at(-1) + length] },
        y: chart.log
          ? { distr: 3, log: 10, range: (_, low, high) => rungs(low, high) }
          : { range: (_, low, high) => [0, top(high)] },
      },
      axes: [
        { ...axis, grid: { show: false }, size: 28, space: 64, values: axisTimes },
        {
          ...axis,
          size: (_, values) => 14 + 6.4 * Math.max(3, ...(values ?? [""]).map((text) => text.length)),
          space: 34,
          values: (_, splits) => splits.map((value) => axisValue(value, chart)),
          ...(chart.log && { splits: (_, place, low, high) => ladder(low, high), filter: all }),
        },
      ],
      series: [{}, ...rows.map((row) => drawn(row))],
      hooks: {
        drawClear: [(u) => chart.of && recent.unread && shade(u, times[recent.unread])],
        setCursor: [(u) => legend(card, chart, times, u.cursor.idx)],
      },
    },
    [times.map((at) => at + length / 2), ...rows.map((row) => row.values)],
    plot,
  );
  plots.set(name, made);
  if (place != null) point(made, place);
}

const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const top = (high) => (high > 4 ? high * 1.08 : 4);

// Durations that people know, from a millisecond to a year, for an axis that grows by factors.
const LADDER = [
  1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400,
];

// The rungs below and above all durations.
function rungs(low, high) {
  const below = LADDER.findLast((rung) => rung <= low) ?? LADDER[0];
  const above = LADDER.find((rung) => rung >= high && rung > below) ?? high;
  return [below, above];
}

const all = (_, splits) => splits; // else only powers of ten have a word
const ladder = (low, high) => LADDER.filter((rung) => rung >= low && rung <= high);

function axisValue(value, chart) {
  if (value == null) return "";
  if (chart.show === span) return span(value).replace(/ 0 [sm]$/, "");
  if (chart.show === size) return value ? size(value) : "0";
  return Number.isInteger(value) ? short.format(value) : "";
}

function drawn({ color: name, draw: how, side = 0 }) {
  const stroke = color(name);
  if (how === "line") {
    return { stroke, width: 2, spanGaps: false, points: { show: true, size: 5, fill: stroke } };
  }
  return {
    fill: stroke,
    stroke,
    width: 0,
    points: { show: false },
    paths: uPlot.paths.bars({ size: [side ? 0.38 : 0.72, 40], align: side, radius: 0.12 }),
  };
}

// The time before this, whose runs were not read.
function shade({ ctx, bbox, valToPos }, until) {
  const width = valToPos(until, "x", true) - bbox.left;
  ctx.save();
  ctx.fillStyle = color("--sunken");
  ctx.fillRect(bbox.left, bbox.top, width, bbox.height);
  ctx.fillStyle = color("--ink3");
  ctx.font = `${11 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.textAlign = "center";
  if (ctx.measureText("not read").width < width) {
    ctx.fillText("not read", bbox.left + width / 2, bbox.top + bbox.height / 2);
  }
  ctx.restore();
}

// --- what is beside a drawing

function legend(card, chart, times, place) {
  const shown = card.querySelector(".legend");
  const parts = chart.series.map((series) => {
    const part = document.createElement("span");
    const key = document.createElement("span");
    key.className = `key ${series.draw}`;
    key.style.backgroundColor = `var(${series.color})`;
    const total = chart.averages ? "" : chart.show(sum(series.values));
    const value = document.createElement("b");
    value.textContent = place == null ? total : chart.show(series.values[place]);
    part.append(key, `${series.label} `, value);
    return part;
  });
  const when = document.createElement("span");
  when.className = "q when";
  when.textContent = place == null ? "" : label(times, place);
  shown.replaceChildren(...parts, when);
}

function label(times, place) {
  const text = absolute(times[place] * 1000).slice(0, 16);
  return place === times.length - 1 ? `${text}, so far` : text;
}

function summary(card, chart) {
  const title = card.querySelector("h2").textContent;
  const unit = card.querySelector(".unit").textContent;
  const values = chart.series.map((series) => {
    const last = series.values.findLast((value) => value != null);
    return chart.averages
      ? `${series.label} ${chart.show(last)} at last`
      : `${series.label} ${chart.show(sum(series.values))}`;
  });
  return `${title}, ${unit}, last ${box.dataset.since}: ${values.join(", ")}. Arrow keys read values.`;
}

const NOTHING = {
  runs: "No run began or completed in this time.",
  times: "No run ended in this time.",
  failures: "Nothing failed in this time.",
  saves: "Nothing was saved in this time.",
  bytes: "Nothing was saved in this time.",
  checks: "No claim was checked in this time.",
};

function nothing(name) {
  const text = document.createElement("p");
  text.className = "q";
  const some = CHARTED[name] === ofRecent && !recent?.whole;
  text.textContent = some ? "Nothing in the runs that were read." : NOTHING[name];
  return text;
}

function numbers(card, chart, times) {
  const details = card.querySelector("details");
  const fill = () => {
    const table = document.createElement("table");
    table.className = "list-table";
    const head = table.createTHead().insertRow();
    for (const text of ["From", ...chart.series.map((series) => series.label)]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = text;
      head.append(cell);
    }
    const body = table.createTBody();
    for (let place = times.length - 1; place >= 0; place -= 1) {
      const row = body.insertRow();
      const from = document.createElement("th");
      from.scope = "row";
      from.textContent = label(times, place);
      row.append(from);
      for (const series of chart.series) {
        const value = series.values[place];
        row.insertCell().textContent =
          value == null ? (chart.of ? "not read" : "–") : chart.show(value);
      }
    }
    details.querySelector(".scroll").replaceChildren(table);
  };
  details.ontoggle = () => details.open && fill();
  if (details.open) fill();
}

// The types of evidence, to choose one.
function kinds() {
  const types = Object.keys(recent.checks);
  const header = document.querySelector("#chart-checks header");
  header.querySelector("select")?.remove();
  if (types.length < 2) return;
  const select = document.createElement("select");
  select.setAttribute("aria-label", "Type of evidence");
  for (const type of ["", ...types]) select.add(new Option(type || "all types", type));
  select.value = types.includes(kind) ? kind : (kind = "");
  select.addEventListener("change", () => {
    kind = select.value;
    draw("checks");
  });
  header.append(select);
}

function readByKeys(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const name = event.target.closest(".chart")?.id.slice("chart-".length);
  const plot = plots.get(name);
  if (!step || !plot) return;
  const last = plot.data[0].length - 1;
  const place = Math.min(last, Math.max(0, (plot.cursor.idx ?? (step < 0 ? last + 1 : -1)) + step));
  point(plot, place);
  event.preventDefault();
}

function point(plot, place) {
  plot.setCursor({ left: plot.valToPos(plot.data[0][place], "x"), top: 0 });
}

// --- data

const ofIndex = () => over;
const ofRecent = () => recent;
const CHARTED = {
  runs: ofIndex,
  times: ofIndex,
  failures: ofIndex,
  saves: ofIndex,
  bytes: ofRecent,
  checks: ofRecent,
};

function drawAll() {
  for (const [name, data] of Object.entries(CHARTED)) {
    if (data()) draw(name);
  }
}

async function get(path) {
  const answer = await fetch(`${path}?${box.dataset.query}`);
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

// Ask for the data of some charts, and draw them.
async function load(path, of, keep) {
  const names = Object.keys(CHARTED).filter((name) => CHARTED[name] === of);
  try {
    keep(await get(path));
    names.forEach(draw);
  } catch (error) {
    for (const name of names.filter((name) => !plots.has(name))) {
      const text = nothing(name);
      text.textContent = "The numbers can't be loaded now.";
      document.querySelector(`#chart-${name} .plot`).replaceChildren(text);
    }
    console.warn(error);
  }
}

async function loadAll() {
  await Promise.all([
    load("/overview/data", ofIndex, (found) => (over = found)),
    load("/overview/recent", ofRecent, (found) => {
      recent = found;
      kinds();
    }),
  ]);
  box.dataset.drawn = "yes";
}

if (box) {
  document.addEventListener("holdfast:theme", drawAll);
  document.addEventListener("holdfast:zone", drawAll);
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", drawAll);
  }
  box.addEventListener("keydown", readByKeys);
  new ResizeObserver(() => {
    for (const plot of plots.values()) {
      const room = plot.root.parentElement;
      if (room.clientWidth !== plot.width) {
        plot.setSize({ width: room.clientWidth, height: room.clientHeight });
      }
    }
  }).observe(box);
  loadAll();
  setInterval(() => document.hidden || loadAll(), GAP);
}

// A part that can't be loaded says so.
for (const event of ["htmx:responseError", "htmx:sendError"]) {
  document.addEventListener(event, ({ target }) => {
    const text = target.querySelector(".loading");
    if (text) text.textContent = "This can't be loaded now.";
  });
}

document.getElementById("flow")?.addEventListener("change", (event) => event.target.form.submit());
