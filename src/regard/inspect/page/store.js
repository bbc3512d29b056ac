/**
 * What the page knows: one object, its listeners, and the address of the page.
 *
 * What is unusual: the pivot (part, layer, head, row, key), the screen and the request stand in `location.hash`, so an
 * address is a picture. The hash is written a little later than the store changes, as browsers refuse a hundred a
 * second.
 * What it does not know: the page (`app.js`), and where numbers come from (`source.js`).
 */

/** Keys that the address holds; layer, head, row and key are counted from 0 there, as the model's own names do. */
const HASHED = ["screen", "part", "layer", "head", "row", "key", "request", "edits"];
const NUMBERS = ["layer", "head", "row", "key"];
const HASH_DELAY_MS = 250;

/** What is asked of the model when nothing else is said; the fields are those of POST /api/run. */
export const FRESH_REQUEST = Object.freeze({
  texts: [""],
  to: null,
  target: null,
  prefix: [],
  mode: "greedy",
  beam: 4,
  temperature: 1,
  seed: 0,
});

const state = {
  lang: "en",
  theme: "light",
  screen: "try",
  model: null, // what GET /api/model says
  request: FRESH_REQUEST, // what is asked, without edits
  edits: [], // inspect/edits.py, as JSON
  view: null, // what POST /api/run says
  before: null, // the view of the same request without edits, where there are edits
  part: null,
  layer: null,
  head: 0,
  row: 0,
  key: null, // the layer: at first the last one
  locked: false, // a click locks the pivot: passing over tokens no longer moves it
  join: false,
  hideSpecials: false,
  measure: "weights", // "weights" | "norms" | "effects"
  heads: null, // a set of [layer, head] whose mean is shown, or null: the pivot's head alone
  picture: "lines", // "lines" | "matrix" | "table"
  status: { kind: "idle" }, // or {kind: "busy", what}, {kind: "error", error}
};

const listeners = new Map(); // key -> Set of functions
let hashTimer = 0;

function storeSame(a, b) {
  return a === b || (typeof a === "object" && typeof b === "object" && JSON.stringify(a) === JSON.stringify(b));
}

/** The page's link; a page in a notebook's frame has no address of its own, and the browser forbids it one. */
function writeHash() {
  try {
    history.replaceState(null, "", pageHash());
  } catch {
    // there is nothing to link to
  }
}

/**
 * The one store. `on` calls its function once for each `set` that changes any of its keys, with the set of those
 * changed.
 */
export const store = {
  /** @param {string} key */
  get(key) {
    if (!(key in state)) throw new Error(`the store has no ${key}`);
    return state[key];
  },

  /** @param {object} patch the keys that change */
  set(patch) {
    const changed = new Set();
    for (const [key, value] of Object.entries(patch)) {
      if (storeSame(store.get(key), value)) continue;
      state[key] = value;
      changed.add(key);
    }
    if (!changed.size) return;
    if (HASHED.some((key) => changed.has(key))) {
      clearTimeout(hashTimer);
      hashTimer = setTimeout(writeHash, HASH_DELAY_MS);
    }
    const called = new Set([...changed].flatMap((key) => [...(listeners.get(key) ?? [])]));
    for (const fn of called) fn(changed);
  },

  /** @param {string|string[]} keys @param {(changed: Set<string>) => void} fn @returns {() => void} stops listening */
  on(keys, fn) {
    const names = [keys].flat();
    for (const name of names) {
      store.get(name);
      if (!listeners.has(name)) listeners.set(name, new Set());
      listeners.get(name).add(fn);
    }
    return () => names.forEach((name) => listeners.get(name).delete(fn));
  },
};

/** The address of what is seen now, from `#` on. */
export function pageHash() {
  const words = new URLSearchParams();
  for (const name of ["screen", "part", ...NUMBERS]) if (state[name] !== null) words.set(name, state[name]);
  const request = state.request;
  for (const text of request.texts) words.append("text", text);
  for (const name of Object.keys(FRESH_REQUEST)) {
    if (name !== "texts" && !storeSame(request[name], FRESH_REQUEST[name])) {
      words.set(name, typeof request[name] === "string" ? request[name] : JSON.stringify(request[name]));
    }
  }
  if (state.edits.length) words.set("edits", JSON.stringify(state.edits));
  return `#${words}`;
}

/** What an address asks for, as a patch of the store; what it does not say is left out, what makes no sense too. */
export function readHash(hash) {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const patch = {};
  for (const name of ["screen", "part"]) if (words.has(name)) patch[name] = words.get(name);
  for (const name of NUMBERS) {
    const value = words.get(name);
    if (/^\d{1,5}$/.test(value ?? "")) patch[name] = Number(value);
  }
  if (words.has("text")) patch.request = hashRequest(words);
  const edits = hashJson(words.get("edits"));
  if (Array.isArray(edits)) patch.edits = edits;
  else if (patch.request) patch.edits = [];
  return patch;
}

function hashRequest(words) {
  const request = { ...FRESH_REQUEST, texts: words.getAll("text").slice(0, 2) };
  for (const name of ["to", "target", "mode"]) if (words.has(name)) request[name] = words.get(name);
  for (const name of ["beam", "temperature", "seed"]) {
    const value = Number(words.get(name) ?? NaN);
    if (Number.isFinite(value)) request[name] = value;
  }
  const prefix = hashJson(words.get("prefix"));
  if (Array.isArray(prefix) && prefix.every(Number.isInteger)) request.prefix = prefix;
  return request;
}

function hashJson(text) {
  try {
    return JSON.parse(text ?? "null");
  } catch {
    return null;
  }
}

/** A part's entry in the model's list, or the first one's; null for a model without attention to show. */
export function partOf(model, name) {
  return model?.parts.find((part) => part.name === name) ?? model?.parts[0] ?? null;
}

/**
 * The tokens on both sides of a part in this view: {queries, keys, writes}; `writes` is null but on the target side.
 */
export function partSides(view, part) {
  const queries = view[part.queries];
  return {
    queries: queries.tokens,
    keys: view[part.keys].tokens,
    writes: part.queries === "target" ? queries.writes : null,
  };
}

/** What a row of a part is named after: in cross-attention what it writes (that is alignment), else what it reads. */
export function rowTokens(view, part) {
  const { queries, writes } = partSides(view, part);
  return part.queries === part.keys ? queries : queries.map((token, i) => writes?.[i] ?? token);
}

/** Where the reader is. */
export function pivotNow() {
  return Object.fromEntries(["part", ...NUMBERS].map((name) => [name, state[name]]));
}

/** The pivot brought inside what this model and this view have. */
export function fitPivot(model, view, pivot) {
  const parts = model.parts.filter((part) => view === null || (view[part.queries] && view[part.keys]));
  const part =
    parts.find((one) => one.name === pivot.part) ?? parts.find((one) => one.name === "decoder.cross") ?? parts[0];
  if (!part) return { part: null, layer: 0, head: 0, row: 0, key: null };
  const within = (value, count) => Math.max(0, Math.min(value ?? 0, count - 1));
  const fitted = {
    part: part.name,
    layer: within(pivot.layer ?? part.layers - 1, part.layers),
    head: within(pivot.head, part.heads),
    row: pivot.row ?? 0,
    key: pivot.key ?? null,
  };
  if (view === null) return fitted;
  const { queries, keys } = partSides(view, part);
  fitted.row = within(pivot.row, queries.length);
  if (fitted.key !== null && fitted.key >= keys.length) fitted.key = null;
  return fitted;
}
