/**
 * Where the page's numbers come from: the server that opened it, or the file that it is (an exported page).
 *
 * What is unusual: tensors come as bytes, several in one answer, and are kept by name up to a bound; a run that the
 * server has forgotten is run again without a word. An exported page answers from itself, and what it cannot do
 * (run the model) is refused with `NeedsServer`.
 * What it does not know: the page, and what the numbers mean.
 */

const KEPT_BYTES = 160e6;

/** What the server refused, in its own words: what, where, expected, got, mend. */
export class Refused extends Error {
  constructor(error) {
    super(error.what);
    Object.assign(this, error);
  }
}

/** An exported page was asked for something that only a running model can do. */
export class NeedsServer extends Error {}

let halfTable = null;

/** All 65536 half-precision numbers as single ones: IEEE 754, subnormals and infinities too. */
function makeHalfTable() {
  return Float32Array.from({ length: 65536 }, (_, bits) => {
    const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  });
}

/** Half precision to single, by looking each up. @param {Uint16Array} halves */
export function float16ToFloat32(halves) {
  halfTable ??= makeHalfTable();
  const floats = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) floats[i] = halfTable[halves[i]];
  return floats;
}

/** The bytes of one tensor, little endian, as floats. */
function tensorFloats(buffer, offset, count, dtype) {
  if (dtype === "float16") return float16ToFloat32(new Uint16Array(buffer, offset, count));
  if (dtype === "uint8") return Float32Array.from(new Uint8Array(buffer, offset, count));
  return new Float32Array(buffer, offset, count);
}

function tensorSize(shape) {
  return shape.reduce((product, length) => product * length, 1);
}

/** The source of this page's numbers. */
export function makeSource() {
  const embedded = document.getElementById("regard-data");
  return embedded ? new EmbeddedSource(JSON.parse(embedded.textContent)) : new LiveSource();
}

class LiveSource {
  live = true;
  #kept = new Map(); // "id|name|dtype|rows" -> Promise of {shape, data}, oldest use first
  #bytes = 0;
  #asked = new Map(); // id -> request, for a server that has forgotten
  #again = new Map(); // forgotten id -> its new id

  async #fetch(path, options = {}) {
    const answer = await fetch(path, options).catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Refused({ what: "no-answer", code: "no-answer" });
    });
    if (answer.ok) return answer;
    const body = await answer.json().catch(() => null);
    throw Object.assign(new Refused(body?.error ?? { what: `${answer.status} ${answer.statusText}` }), {
      status: answer.status,
    });
  }

  async #post(path, body, signal) {
    return this.#fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  }

  /** `work(id)`; where the server no longer has this run, the run is made again and then asked once more. */
  async #ofRun(id, work) {
    const now = this.#again.get(id) ?? id;
    try {
      return await work(encodeURIComponent(now));
    } catch (error) {
      if (error.status !== 404 || !this.#asked.has(id)) throw error;
      const view = await (await this.#post("api/run", this.#asked.get(id))).json();
      this.#again.set(id, view.id);
      return work(encodeURIComponent(view.id));
    }
  }

  /** GET /api/model; @param {number} [index] of a second model beside the first */
  async model(index = 0) {
    return (await this.#fetch(`api/model${index ? `?model=${index}` : ""}`)).json();
  }

  async models() {
    return (await this.#fetch("api/models")).json();
  }

  /** POST /api/run. @param {object} request @param {AbortSignal} [signal] */
  async run(request, signal) {
    const view = await (await this.#post("api/run", request, signal)).json();
    this.#asked.set(view.id, request);
    return view;
  }

  /**
   * Tensors of a run, by name. `rows` is "a:b" of the query axis.
   * @param {string[]} names @param {{dtype?: "float16"|"float32", rows?: string}} [how]
   * @returns {Promise<Map<string, {shape: number[], data: Float32Array}>>}
   */
  async tensors(id, names, { dtype = "float32", rows = "" } = {}, signal = undefined) {
    const keyOf = (name) => `${id}|${name}|${dtype}|${rows}`;
    const missing = [...new Set(names)].filter((name) => !this.#kept.has(keyOf(name)));
    if (missing.length) {
      const found = this.#ofRun(id, (now) => this.#download(now, missing, dtype, rows, signal));
      for (const name of missing)
        this.#keep(
          keyOf(name),
          found.then((all) => all.get(name)),
        );
    }
    const all = await Promise.all(names.map((name) => this.#recall(keyOf(name))));
    return new Map(names.map((name, i) => [name, all[i]]));
  }

  #keep(key, promise) {
    this.#kept.set(key, promise);
    promise.then(
      ({ data }) => {
        this.#bytes += data.byteLength;
        for (const [oldest, value] of this.#kept) {
          if (this.#bytes <= KEPT_BYTES || oldest === key) break;
          this.#kept.delete(oldest);
          value.then(
            (tensor) => (this.#bytes -= tensor.data.byteLength),
            () => {},
          );
        }
      },
      () => this.#kept.delete(key),
    );
  }

  #recall(key) {
    const promise = this.#kept.get(key);
    this.#kept.delete(key); // to the end of the row: used last
    this.#kept.set(key, promise);
    return promise;
  }

  async #download(id, names, dtype, rows, signal) {
    const words = new URLSearchParams([
      ...names.map((name) => ["name", name]),
      ["dtype", dtype],
      ...(rows ? [["rows", rows]] : []),
    ]);
    const answer = await this.#fetch(`api/runs/${id}/tensor?${words}`, { signal });
    const entries = JSON.parse(answer.headers.get("X-Tensors"));
    const buffer = await answer.arrayBuffer();
    return new Map(
      entries.map(({ name, shape, dtype: stored, offset }) => [
        name,
        { shape, data: tensorFloats(buffer, offset, tensorSize(shape), stored) },
      ]),
    );
  }

  /** The effect of removing each edge of one row: log p with it minus log p without it. @returns {Promise<number[]>} */
  async edges(id, { part, layer, head, query }, signal) {
    const answer = await this.#ofRun(id, (now) =>
      this.#post(`api/runs/${now}/edges`, { part, layer, head, query }, signal),
    );
    return (await answer.json()).effects;
  }

  async lens(id, signal) {
    return (await this.#ofRun(id, (now) => this.#fetch(`api/runs/${now}/lens`, { signal }))).json();
  }

  /**
   * Head roles as {roles, sentences}; `onProgress({progress, of})` is called as they come. Aborting stops the
   * server's work.
   */
  async roles(request, onProgress, signal) {
    const answer = await this.#post("api/roles", request, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + (value ?? "")).split("\n");
      rest = done ? "" : lines.pop();
      for (const line of lines.filter((text) => text.trim())) {
        const message = JSON.parse(line);
        if (message.error) throw new Refused(message.error);
        if (message.roles) return message;
        onProgress(message);
      }
      if (done) throw new Refused({ what: "no-answer", code: "no-answer" });
    }
  }

  npzUrl(id) {
    return `api/runs/${encodeURIComponent(this.#again.get(id) ?? id)}/npz`;
  }

  htmlUrl(id) {
    return `api/runs/${encodeURIComponent(this.#again.get(id) ?? id)}/html`;
  }
}

class EmbeddedSource {
  live = false;
  #data;

  constructor(data) {
    this.#data = data;
  }

  /** The views that this file holds. */
  get runs() {
    return this.#data.runs;
  }

  /** Names of tensors that were too large for this file. */
  leftOut(id) {
    return this.#data.left_out?.[id] ?? [];
  }

  async model() {
    return this.#data.model;
  }

  async models() {
    return [{ index: 0, name: this.#data.model.name, path: this.#data.model.path }];
  }

  /** The embedded run of this request; any other needs the model. */
  async run(request) {
    const found = this.#data.runs.find((view) => sameRequest(view.request, request));
    if (!found) throw new NeedsServer();
    return found;
  }

  async tensors(id, names, { rows = "" } = {}) {
    return new Map(names.map((name) => [name, this.#tensor(id, name, rows)]));
  }

  #tensor(id, name, rows) {
    const held = this.#data.tensors[id]?.[name];
    if (!held) throw new NeedsServer();
    const bytes = Uint8Array.from(atob(held.base64), (letter) => letter.charCodeAt(0));
    const whole = { shape: held.shape, data: tensorFloats(bytes.buffer, 0, tensorSize(held.shape), held.dtype) };
    return rows ? cutRows(whole, ...rows.split(":").map(Number)) : whole;
  }

  async edges() {
    throw new NeedsServer();
  }

  async lens(id) {
    const held = this.#data.lens?.[id];
    if (!held) throw new NeedsServer();
    return held;
  }

  async roles() {
    if (!this.#data.roles) throw new NeedsServer();
    return this.#data.roles;
  }

  npzUrl() {
    return null;
  }

  htmlUrl() {
    return null;
  }
}

/** Rows [start, stop) of the query axis: the last but one, or the first of a matrix. */
function cutRows({ shape, data }, start, stop) {
  const axis = shape.length - 2;
  const [rows, columns] = shape.slice(axis);
  const end = Math.min(stop, rows);
  const pieces = tensorSize(shape.slice(0, axis));
  const cut = new Float32Array(pieces * (end - start) * columns);
  for (let piece = 0; piece < pieces; piece++) {
    const from = piece * rows * columns;
    cut.set(data.subarray(from + start * columns, from + end * columns), piece * (end - start) * columns);
  }
  return { shape: [...shape.slice(0, axis), end - start, columns], data: cut };
}

/** Whether two requests ask for the same; how a search or a draw goes matters only where there is one. */
function sameRequest(a, b) {
  const names = ["texts", "to", "target", "prefix", "edits"];
  if (a.target === null) names.push("mode", ...{ greedy: [], beam: ["beam"], sample: ["temperature", "seed"] }[a.mode]);
  return names.every((name) => JSON.stringify(a[name] ?? null) === JSON.stringify(b[name] ?? null));
}
