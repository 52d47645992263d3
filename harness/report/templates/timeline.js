"use strict";
// Draws the zoomable timeline from the columns in #timeline-data: per node its claims, below them its operations.
// Rare and telling operations (fail, unknown, the witness's) are painted last and never thinner than two pixels.
(() => {
  const holder = document.getElementById("timeline-data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const ops = data.ops;
  const start = new Int32Array(bytes(ops.start)), length = new Int32Array(bytes(ops.length));
  const nodeOf = new Uint16Array(bytes(ops.node)), rowOf = new Uint16Array(bytes(ops.row));
  const flags = new Uint8Array(bytes(ops.flags)), processOf = new Int32Array(bytes(ops.process));
  const indexOf = new Int32Array(bytes(ops.index)), epochOf = new Int32Array(bytes(ops.epoch));
  const said = new Uint32Array(bytes(ops.said)), error = new Uint16Array(bytes(ops.error));
  const TYPES = ["ok", "fail", "info", "lost compare"], SIGNS = ["✓", "✗", "?", "≠"], WITNESS = 4, NEVER_ENDED = 8;
  const LEFT = 84, CLAIM = 22, GAP = 8, AXIS = 18, FAULT = 16;

  const figure = document.getElementById("zoom"), canvas = document.getElementById("operations");
  const detail = document.getElementById("detail"), range = document.getElementById("range");
  const pen = canvas.getContext("2d");
  figure.hidden = false;

  const faultRow = packed(data.faults.map((f) => f.possible));
  const faultRows = data.faults.length ? Math.max(...faultRow) + 1 : 0;
  const lanes = new Map(), laneList = [];
  let rowHeight = 15, bottom = 0, height = 0;

  // Layout: fault rows, then for each node its claims and those rows of operations that hold one of what is seen.
  function layOut() {
    const used = data.nodes.map(() => new Set());
    for (let i = 0; i < ops.count; i++) if (start[i] <= hi && start[i] + length[i] >= lo) used[nodeOf[i]].add(rowOf[i]);
    const rowsInAll = Math.max(used.reduce((sum, rows) => sum + rows.size, 0), 1);
    rowHeight = Math.max(5, Math.min(15, Math.floor(430 / rowsInAll)));
    let y = faultRows * FAULT + 6;
    data.nodes.forEach((node, number) => {
      const claims = node.lanes.length * CLAIM + 3, rows = [...used[number]].sort((a, b) => a - b);
      const lane = { top: y, ops: y + claims, claims, rows: rows.length, place: new Map(rows.map((row, i) => [row, i])) };
      lanes.set(node.name, lane);
      laneList[number] = lane;
      y += claims + Math.max(rows.length, 1) * rowHeight + GAP;
    });
    bottom = y;
    height = y + AXIS;
    canvas.style.height = height + "px";
  }
  const rowTop = (i) => { const lane = laneList[nodeOf[i]]; return lane.ops + lane.place.get(rowOf[i]) * rowHeight; };

  const whole = [0, Math.max(data.end, 1)];
  let lo = 0, hi = whole[1], width = 800, chosen = -1, colours = {}, patterns = [], waiting = false;

  function packed(intervals) {
    const ends = [];
    return intervals.map(([from, to]) => {
      let row = ends.findIndex((end) => end <= from);
      if (row < 0) row = ends.length;
      ends[row] = Math.max(to, from + data.end * 0.09);  // room for a name
      return row;
    });
  }

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["paper", "ink", "soft", "line", "grid", "fault", "fault-paper", "ok", "ok-dark", "fail", "info", "witness",
      ...Array.from({ length: data.epochClasses }, (_, i) => "e" + i)]) colours[name] = style.getPropertyValue("--" + name).trim();
    patterns = Array.from({ length: data.epochClasses }, (_, i) => texture(i));
  }

  // The same six textures as in the still pictures.
  function texture(kind) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 7;
    const p = tile.getContext("2d");
    p.strokeStyle = p.fillStyle = "rgba(255,255,255,.5)";
    p.beginPath();
    if (kind === 1) { p.moveTo(0, 7); p.lineTo(7, 0); }
    if (kind === 2) { p.moveTo(0, 0); p.lineTo(7, 7); }
    if (kind === 3) p.fillRect(2, 2, 2, 2);
    if (kind === 4) { p.moveTo(0, 3.5); p.lineTo(7, 3.5); }
    if (kind === 5) { p.moveTo(3.5, 0); p.lineTo(3.5, 7); }
    p.stroke();
    return pen.createPattern(tile, "repeat");
  }

  const x = (t) => LEFT + ((t - lo) / (hi - lo)) * (width - LEFT - 4);
  const time = (px) => lo + ((px - LEFT) / (width - LEFT - 4)) * (hi - lo);
  const seconds = (t, digits = 3) => ((t * data.unitNs) / 1e9).toFixed(digits) + " s";
  function lengthText(units) {
    const ns = units * data.unitNs;
    if (ns < 1e6) return (ns / 1e3).toPrecision(3) + " µs";
    return ns < 1e9 ? (ns / 1e6).toPrecision(3) + " ms" : (ns / 1e9).toPrecision(3) + " s";
  }

  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    if (!width) return;
    layOut();
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    drawAxis();
    pen.save();
    pen.beginPath(); pen.rect(LEFT, 0, width - LEFT, height); pen.clip();
    drawFaults();
    drawBegins();
    data.stretches.forEach((s) => { if (s.state !== "leader") drawStretch(s); });
    data.stretches.forEach((s) => { if (s.state === "leader") drawStretch(s); });
    drawOperations();
    pen.restore();
    drawNames();
    range.textContent = `${seconds(lo)} – ${seconds(hi)} (${lengthText(hi - lo)})`;
    showView();
  }

  function drawAxis() {
    const span = hi - lo;
    let step = Math.pow(10, Math.floor(Math.log10(span / 6)));
    for (const m of [1, 2, 5, 10]) if (span / (step * m) <= 12) { step *= m; break; }
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10((step * data.unitNs) / 1e9) - 1e-9)));
    pen.textAlign = "center";
    for (let t = Math.ceil(lo / step) * step; t <= hi; t += step) {
      pen.strokeStyle = colours.grid;
      line(x(t), 0, x(t), bottom);
      pen.fillStyle = colours.soft;
      if (x(t) > LEFT + 16 && x(t) < width - 20) pen.fillText(seconds(t, digits), x(t), height - 5);
    }
    pen.textAlign = "left";
  }

  function line(x0, y0, x1, y1) { pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke(); }

  function drawFaults() {
    data.faults.forEach((f, i) => {
      if (f.possible[1] < lo || f.possible[0] > hi) return;
      const top = faultRow[i] * FAULT + 1;
      if (f.proven) {
        const x0 = Math.max(x(f.proven[0]), LEFT), x1 = Math.max(Math.min(x(f.proven[1]), width), x0 + 1);
        pen.fillStyle = colours["fault-paper"];
        pen.globalAlpha = 0.45; pen.fillRect(x0, faultRows * FAULT + 2, x1 - x0, bottom - faultRows * FAULT); pen.globalAlpha = 1;
        f.nodes.forEach((n) => { const lane = lanes.get(n); if (lane) pen.fillRect(x0, lane.top, x1 - x0, lane.claims); });
        pen.fillRect(x0, top, x1 - x0, FAULT - 3);
        pen.strokeStyle = colours.fault;
        pen.strokeRect(x0 + 0.5, top + 0.5, x1 - x0 - 1, FAULT - 4);
        line(x0, top, x0, bottom); line(x1, top, x1, bottom);
      }
      pen.setLineDash([3, 2]); pen.strokeStyle = colours.fault;
      pen.strokeRect(x(f.possible[0]) + 0.5, top + 0.5, Math.max(x(f.possible[1]) - x(f.possible[0]), 2), FAULT - 4);
      pen.setLineDash([]);
      pen.fillStyle = colours.ink;
      pen.fillText(f.name, Math.max(x(f.possible[0]), LEFT) + 4, top + 10);
    });
  }

  function drawBegins() {
    pen.strokeStyle = colours.soft; pen.fillStyle = colours.soft; pen.setLineDash([4, 3]);
    for (const b of data.begins) if (b.at >= lo && b.at <= hi) {
      line(x(b.at), faultRows * FAULT + 2, x(b.at), bottom);
      pen.fillText(`${data.word} ${b.epoch} has begun`, x(b.at) + 3, bottom - 1);
    }
    pen.setLineDash([]);
  }

  function drawStretch(s) {
    const lane = lanes.get(s.node);
    if (!lane || s.to < lo || s.from > hi) return;
    const x0 = Math.max(x(s.from), LEFT), w = Math.max(Math.min(x(s.to), width) - x0, 2), top = lane.top + s.lane * CLAIM;
    const colour = s.style >= 0 ? colours["e" + s.style] : colours.soft;
    let text = "";
    if (s.state === "leader") {
      pen.fillStyle = colour; pen.fillRect(x0, top + 2, w, CLAIM - 4);
      if (s.style > 0) { pen.fillStyle = patterns[s.style]; pen.fillRect(x0, top + 2, w, CLAIM - 4); }
      text = s.said;
    } else if (s.state === "follower") {
      pen.globalAlpha = 0.55; pen.fillStyle = colour; pen.fillRect(x0, top + 15, w, 4); pen.globalAlpha = 1;
      text = s.said;
    } else {
      pen.strokeStyle = colours.soft; pen.setLineDash(s.state === "silent" ? [1, 3] : []);
      pen.strokeRect(x0, top + 5, w, CLAIM - 10); pen.setLineDash([]);
      text = s.state === "down" ? "✕ down" : "silent";
    }
    if (s.superseded) {
      pen.strokeStyle = colours.witness; pen.lineWidth = 2; pen.setLineDash([5, 2]);
      const thin = s.state === "follower";
      pen.strokeRect(x(s.superseded[0]), top + (thin ? 13 : 1), Math.max(x(s.superseded[1]) - x(s.superseded[0]), 4), thin ? 8 : CLAIM - 2);
      pen.setLineDash([]); pen.lineWidth = 1;
      const s0 = Math.max(x(s.superseded[0]), LEFT), s1 = Math.min(x(s.superseded[1]), width), warn = "superseded";
      if (!thin && s1 - s0 > pen.measureText(warn).width + 20 && (s0 - x0 > 60 || s1 - s0 > 150)) {
        onLeader(warn, s1 - pen.measureText(warn).width - 16, top + 15);
      }
    }
    if (pen.measureText(text).width + 8 > w && s.state === "leader") text = s.epoch;
    if (pen.measureText(text).width + 6 > w) return;
    if (s.state === "leader") {
      onLeader(text, x0 + 4, top + 15);
    } else {
      pen.fillStyle = colours.soft; pen.fillText(text, x0 + 4, top + (s.state === "follower" ? 12 : 15));
    }
  }

  // White on a dark rim, so that it reads on every colour and texture.
  function onLeader(text, px, py) {
    pen.font = "600 11.5px system-ui, sans-serif";
    pen.strokeStyle = "rgba(0,0,0,.55)"; pen.lineWidth = 3; pen.lineJoin = "round";
    pen.strokeText(text, px, py);
    pen.lineWidth = 1; pen.fillStyle = "#fff";
    pen.fillText(text, px, py);
    pen.font = "11px system-ui, sans-serif";
  }

  // Plain ok and lost compares first, then fail, then unknown, then the witness's, so that the rare ones are never hidden.
  const PASS = [0, 1, 2, 0];
  function drawOperations() {
    const passes = [[], [], [], []];
    for (let i = 0; i < ops.count; i++) {
      if (start[i] > hi || start[i] + length[i] < lo) continue;
      passes[flags[i] & WITNESS ? 3 : PASS[flags[i] & 3]].push(i);
    }
    const labels = passes[0].length + passes[1].length + passes[2].length + passes[3].length < 600 && rowHeight >= 9;
    passes.forEach((pass) => pass.forEach((i) => drawOperation(i, labels)));
    if (chosen >= 0 && start[chosen] <= hi && start[chosen] + length[chosen] >= lo) {
      const [x0, y0, w, h] = place(chosen);
      pen.strokeStyle = colours.ink; pen.lineWidth = 2; pen.strokeRect(x0 - 2, y0 - 2, w + 4, h + 4); pen.lineWidth = 1;
    }
  }

  function place(i) {
    const type = flags[i] & 3, rare = type === 1 || type === 2 || flags[i] & WITNESS;
    const x0 = Math.max(x(start[i]), LEFT - 4), x1 = Math.min(x(start[i] + length[i]), width + 4);
    return [x0, rowTop(i), Math.max(x1 - x0, rare ? 2 : 0.7), rowHeight - (rowHeight > 7 ? 2 : 1)];
  }

  function drawOperation(i, labels) {
    const [x0, y0, w, h] = place(i), type = flags[i] & 3;
    if (type === 0) { pen.fillStyle = colours.ok; pen.fillRect(x0, y0, w, h); }
    else if (type === 3) { pen.fillStyle = colours.ok; pen.fillRect(x0, y0 + h / 2, w, h / 2); }
    else if (type === 1) { pen.fillStyle = colours.fail; pen.fillRect(x0, y0 + h / 2, w, h / 2); }
    else {
      pen.strokeStyle = colours.info;
      pen.beginPath(); pen.moveTo(x0 + w, y0 + 0.5); pen.lineTo(x0 + 0.5, y0 + 0.5); pen.lineTo(x0 + 0.5, y0 + h - 0.5); pen.lineTo(x0 + w, y0 + h - 0.5); pen.stroke();
      if (flags[i] & NEVER_ENDED || w < 4) { pen.fillStyle = colours.info; pen.fillRect(x0, y0, 2, h); }
    }
    if (flags[i] & WITNESS) {
      pen.strokeStyle = colours.witness; pen.lineWidth = 2; pen.strokeRect(x0 - 1, y0 - 1, w + 2, h + 2); pen.lineWidth = 1;
      pen.fillStyle = colours.witness;
      pen.beginPath(); pen.moveTo(x0 + w / 2, y0 - 2); pen.lineTo(x0 + w / 2 - 4, y0 - 8); pen.lineTo(x0 + w / 2 + 4, y0 - 8); pen.fill();
    }
    const text = ops.saidTexts[said[i]];
    if (labels && w > 30 && pen.measureText(text).width + 6 < w) {
      pen.fillStyle = type === 0 ? colours.paper : colours.ink;
      pen.font = Math.min(11, rowHeight - 2) + "px system-ui, sans-serif";
      pen.fillText(text, Math.max(x0, LEFT) + 3, y0 + h - 2);
      pen.font = "11px system-ui, sans-serif";
    }
  }

  function drawNames() {
    pen.fillStyle = colours.ink; pen.textAlign = "right"; pen.font = "600 12px system-ui, sans-serif";
    for (const node of data.nodes) if (!node.lanes[0]) pen.fillText(node.name, LEFT - 8, lanes.get(node.name).top + 15, LEFT - 12);
    pen.textAlign = "left";
    for (const node of data.nodes) if (node.lanes[0]) pen.fillText(node.name, 2, lanes.get(node.name).top + 15, 24);
    pen.textAlign = "right"; pen.font = "11px system-ui, sans-serif"; pen.fillStyle = colours.soft;
    for (const node of data.nodes) node.lanes.forEach((said, i) => { if (said) pen.fillText(said, LEFT - 8, lanes.get(node.name).top + i * CLAIM + 15, LEFT - 32); });
    if (faultRows) pen.fillText("faults", LEFT - 8, 11);
    for (const lane of laneList) if (lane.rows * rowHeight > 12) pen.fillText("operations", LEFT - 8, lane.ops + 10);
    pen.textAlign = "left";
    pen.strokeStyle = colours.line;
    for (const lane of laneList) line(0, lane.top - GAP / 2, width, lane.top - GAP / 2);
  }

  // Where the zoomed window lies in the still pictures.
  function showView() {
    for (const id of ["overview", "latency"]) {
      const svg = document.querySelector(`svg#${id}`);
      if (!svg) continue;
      let view = svg.querySelector(".view");
      if (!view) {
        view = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        view.setAttribute("class", "view");
        svg.appendChild(view);
      }
      const box = svg.viewBox.baseVal, left = 84, right = 1188, at = (t) => left + (t / whole[1]) * (right - left);
      view.setAttribute("x", at(lo)); view.setAttribute("y", 0);
      view.setAttribute("width", Math.max(at(hi) - at(lo), 2)); view.setAttribute("height", box.height - 18);
      view.setAttribute("visibility", lo <= 0 && hi >= whole[1] ? "hidden" : "visible");
    }
  }

  function show(from, to) {
    const least = Math.max(20000 / data.unitNs, 4), most = whole[1];
    let span = Math.min(Math.max(to - from, least), most);
    lo = Math.min(Math.max((from + to) / 2 - span / 2, 0), most - span);
    hi = lo + span;
    later();
  }
  const zoom = (factor, at) => show(at - (at - lo) * factor, at + (hi - at) * factor);
  const move = (share) => { const by = (hi - lo) * share; show(lo + by, hi + by); };
  const actions = {
    all: () => show(...whole), witness: () => data.focus && show(...data.focus),
    in: () => zoom(0.5, (lo + hi) / 2), out: () => zoom(2, (lo + hi) / 2), left: () => move(-0.3), right: () => move(0.3),
    next: () => step(1), previous: () => step(-1),
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", w: "witness", n: "next", p: "previous" };

  function describe(i) {
    const type = flags[i] & 3, error_ = ops.errorTexts[error[i]];
    const ended = flags[i] & NEVER_ENDED ? "never completed" : lengthText(length[i]);
    return `${SIGNS[type]} ${TYPES[type]}  ${ops.saidTexts[said[i]]}${error_ ? " (" + error_ + ")" : ""} · ${data.nodes[nodeOf[i]].name}, process ${processOf[i]}` +
      ` · ${seconds(start[i], 6)}, ${ended}${epochOf[i] >= 0 ? " · " + data.word + " " + epochOf[i] : ""} · event ${indexOf[i]}${flags[i] & WITNESS ? " · witness" : ""}`;
  }

  // Operations are in order of invocation; n and p step through them from the left edge of what is seen.
  function step(by) {
    if (!ops.count) return;
    if (chosen < 0) { chosen = 0; while (chosen < ops.count - 1 && start[chosen] < lo) chosen++; }
    else chosen = Math.min(Math.max(chosen + by, 0), ops.count - 1);
    if (start[chosen] < lo || start[chosen] > hi) show(start[chosen] - (hi - lo) / 2, start[chosen] + (hi - lo) / 2);
    detail.textContent = describe(chosen);
    later();
  }

  function pointed(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top, at = time(px);
    const slack = ((hi - lo) / width) * 3;
    let best = -1, gap = Infinity;
    for (let i = 0; i < ops.count; i++) {
      if (start[i] > hi || start[i] + length[i] < lo) continue;
      const top = rowTop(i);
      if (py < top || py >= top + rowHeight) continue;
      const away = Math.max(start[i] - at, at - start[i] - length[i], 0) - (flags[i] & WITNESS ? slack : 0);
      if (away <= slack && away < gap) { best = i; gap = away; }
    }
    if (best >= 0) return [best, describe(best)];
    const stretch = data.stretches.find((s) => { const l = lanes.get(s.node); return l && py >= l.top && py < l.ops && s.from <= at && at <= s.to; });
    if (stretch) return [-1, stretch.title];
    const fault = data.faults.find((f, i) => py < faultRows * FAULT && faultRow[i] === Math.floor(py / FAULT) && f.possible[0] <= at && at <= f.possible[1]);
    return fault ? [-1, `${fault.name}: possible ${seconds(fault.possible[0])} – ${seconds(fault.possible[1])}; ` +
      (fault.proven ? `proven ${seconds(fault.proven[0])} – ${seconds(fault.proven[1])}` : "never proven")] : [-1, seconds(at, 6)];
  }

  // One finger (or the mouse) moves the window, two fingers zoom: the moments below them stay below them.
  const fingers = new Map();
  let dragged = null, pinched = null;
  const atCanvas = (px) => px - canvas.getBoundingClientRect().left;
  function held() {
    const at = [...fingers.values()];
    dragged = at.length === 1 ? { px: at[0], lo, hi } : null;
    pinched = at.length === 2 ? at.map((px) => time(atCanvas(px))) : null;
  }
  function released(e) { fingers.delete(e.pointerId); held(); }
  canvas.addEventListener("pointerdown", (e) => { canvas.focus({ preventScroll: true }); canvas.setPointerCapture(e.pointerId); fingers.set(e.pointerId, e.clientX); held(); });
  canvas.addEventListener("pointerup", released);
  canvas.addEventListener("pointercancel", released);
  canvas.addEventListener("pointermove", (e) => {
    if (fingers.has(e.pointerId)) fingers.set(e.pointerId, e.clientX);
    if (pinched) {
      const [a, b] = [...fingers.values()].map(atCanvas), [from, to] = pinched;
      if (Math.abs(b - a) < 8 || (b - a) * (to - from) <= 0) return;
      const perPixel = (to - from) / (b - a), left = from - (a - LEFT) * perPixel;
      show(left, left + (width - LEFT - 4) * perPixel);
      return;
    }
    if (dragged) {
      const by = ((dragged.px - e.clientX) / (width - LEFT)) * (dragged.hi - dragged.lo);
      show(dragged.lo + by, dragged.hi + by);
      return;
    }
    const [found, text] = pointed(e);
    detail.textContent = text;
    if (found !== chosen) { chosen = found; later(); }
  });
  canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey && document.activeElement !== canvas) return;
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) move(e.deltaX / width);
    else zoom(e.deltaY > 0 ? 1.25 : 0.8, time(e.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  canvas.addEventListener("keydown", (e) => {
    const action = keys[e.key];
    if (!action || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    actions[action]();
  });
  for (const button of figure.querySelectorAll("button[data-do]")) {
    button.addEventListener("click", () => actions[button.dataset.do]());
  }
  window.addEventListener("resize", later);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); later(); });

  readColours();
  if (data.focus) show(...data.focus);
  draw();
  canvas.dataset.drawn = String(ops.count);
})();
