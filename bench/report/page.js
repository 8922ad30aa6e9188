"use strict";
(() => {
  // Tables: a head is a button that sorts; words in a field filter. Without this script they are whole, in the files' order.
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? cell.textContent.trim() : cell.dataset.sort;
  };
  const order = (a, b) => {
    const x = Number(a), y = Number(b);
    if (a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    return a.localeCompare(b, "en", { numeric: true });
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      if (head.title) button.title = head.title;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => [value(row, column), row]);
        const none = (v) => v === "" || v === "-";
        rows.sort(([a], [b]) => (none(a) || none(b) ? none(a) - none(b) : up ? order(a, b) : order(b, a))); // what has no value comes last
        body.append(...rows.map(([, row]) => row));
      });
    });
  }
  for (const input of document.querySelectorAll("input[data-filters]")) {
    const rows = [...document.getElementById(input.dataset.filters).tBodies[0].rows];
    const texts = rows.map((row) => [...row.cells].map((c) => c.textContent).join(" ").toLowerCase());
    const count = input.parentElement.querySelector("output");
    input.parentElement.hidden = false;
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        row.hidden = !words.every((w) => texts[i].includes(w));
        shown += row.hidden ? 0 : 1;
      });
      count.textContent = `${shown} of ${rows.length} rows`;
    });
  }

  // Figures: the value of a marker, also for a finger, for which a title does not show.
  for (const figure of document.querySelectorAll("figure")) {
    const readout = figure.querySelector(".readout");
    const show = (event) => {
      if (!event.target.classList.contains("hit")) return;
      figure.querySelectorAll(".hit.shown").forEach((h) => h.classList.remove("shown"));
      event.target.classList.add("shown");
      readout.textContent = event.target.querySelector("title").textContent;
    };
    figure.addEventListener("pointerover", show);
    figure.addEventListener("pointerdown", show);
  }

  // A link to closed evidence opens it.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  open();

  // The planner: the Go code of `hopbench ttft`, as WebAssembly. It starts at the first question.
  const form = document.getElementById("ask");
  const wasm = document.getElementById("planner-wasm");
  if (!wasm) return;
  const status = document.getElementById("ask-status");
  const problem = document.getElementById("ask-error");
  const fail = (text) => {
    problem.textContent = text;
    problem.hidden = text === "";
    if (text) status.textContent = "";
  };
  if (typeof WebAssembly === "undefined" || typeof DecompressionStream === "undefined") {
    fail("This browser lacks WebAssembly or DecompressionStream, which the inputs need. Below is the answer to the first question, and the command that answers others.");
    return;
  }
  form.querySelectorAll("fieldset, button").forEach((e) => { e.disabled = false; });

  const unpack = async (element) => {
    const text = atob(element.textContent);
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    element.textContent = ""; // its memory is wanted elsewhere
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
  };
  let started;
  const start = () => {
    started ??= (async () => {
      const go = new Go();
      // A page has no files: the planner asks whether a model's name is one.
      globalThis.fs.stat = globalThis.fs.lstat = (path, callback) => {
        const error = new Error("a page has no files");
        error.code = "ENOENT";
        callback(error);
      };
      const module = await WebAssembly.instantiate(await (await unpack(wasm)).arrayBuffer(), go.importObject);
      go.run(module.instance);
      const wrong = globalThis.hopbenchCells(await (await unpack(document.getElementById("planner-data"))).text());
      if (wrong) throw new Error(wrong);
    })();
    return started;
  };

  const number = (name) => (form.elements[name].value === "" ? 0 : Number(form.elements[name].value));
  const question = () => {
    const load = form.elements.load.value;
    return {
      model: form.elements.model.value, isl_tokens: number("isl_tokens"), osl_tokens: number("osl_tokens"), tp: number("tp"),
      engine: form.elements.engine.value, overlap: form.elements.overlap.value,
      rate_requests_per_second: load === "rate" ? number("amount") : 0, users: load === "users" ? number("amount") : 0,
      prefill_tokens_per_second: number("prefill_tokens_per_second"), gpu: form.elements.gpu.value,
      prefill_workers: number("prefill_workers"), decode_workers: number("decode_workers"),
      limit_seconds: number("limit_seconds"), quantile: form.elements.quantile.value, find: form.elements.find.checked,
      reference: form.elements.reference.checked, extrapolate: form.elements.extrapolate.checked,
    };
  };

  const list = (id, lines, none) => {
    const items = (lines && lines.length ? lines : none ? [none] : []).map((line) => {
      const item = document.createElement("li");
      item.textContent = line;
      return item;
    });
    document.getElementById(id).replaceChildren(...items);
  };
  const cell = (row, name, text, className) => {
    const c = document.createElement(name);
    c.textContent = text;
    if (name === "th") c.scope = "row";
    if (className) c.className = className;
    row.append(c);
    return c;
  };
  const draw = (answer) => {
    document.getElementById("answer-about").textContent = answer.about;
    document.getElementById("answer-command").textContent = answer.command;
    const rows = (answer.rows || []).map((r) => {
      const row = document.createElement("tr");
      cell(row, "th", r.link);
      cell(row, "td", r.p50, "number");
      cell(row, "td", r.interval, "number");
      cell(row, "td", r.p99, "number");
      cell(row, "td", r.limit);
      cell(row, "td", r.provenance);
      cell(row, "td", r.busy, "number");
      const parts = cell(row, "td", r.never, "parts");
      if (!r.never) {
        const ns = "http://www.w3.org/2000/svg";
        const svg = document.createElementNS(ns, "svg");
        for (const [k, v] of Object.entries({ viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" })) svg.setAttribute(k, v);
        const texts = document.createElement("span");
        texts.textContent = (r.parts || []).map((p) => `${p.name} ${p.text}`).join(", ");
        (r.parts || []).forEach((p, i) => {
          const rect = document.createElementNS(ns, "rect");
          for (const [k, v] of Object.entries({ class: `part${i}`, x: p.from, y: 0, width: p.width, height: 8 })) rect.setAttribute(k, v);
          svg.append(rect);
        });
        parts.append(svg, texts);
      }
      return row;
    });
    document.getElementById("answer-table").tBodies[0].replaceChildren(...rows);
    list("answer-found", answer.found);
    list("answer-notes", answer.notes);
    list("answer-assumed", answer.assumed);
    list("answer-refused", answer.refused, "none");
  };

  const later = () => new Promise((done) => { requestAnimationFrame(() => setTimeout(done, 0)); }); // the status is painted first
  let asked = 0;
  const compute = async () => {
    const me = ++asked;
    fail("");
    if (!form.checkValidity()) {
      fail("An input is out of its range; the answer below is that of the question before.");
      return;
    }
    status.textContent = "Computing.";
    await later();
    try {
      await start();
      if (me !== asked) return;
      const reply = JSON.parse(globalThis.hopbenchPlan(JSON.stringify(question())));
      if (reply.error) {
        fail(`${reply.error}. The answer below is that of the question before.`);
        return;
      }
      draw(reply.answer);
      const n = (reply.answer.rows || []).length;
      status.textContent = `Computed: ${n} ${n === 1 ? "link" : "links"}.`;
    } catch (error) {
      fail(`The planner did not run: ${error.message}`);
    }
  };
  const react = (event) => {
    const load = form.elements.load.value;
    form.elements.amount.disabled = load === "alone";
    form.elements.amount.step = load === "users" ? "1" : "any";
    if (event.target.name === "limit_seconds" && !number("limit_seconds")) form.elements.find.checked = false;
    compute();
  };
  form.addEventListener("change", react);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    compute();
  });
})();
