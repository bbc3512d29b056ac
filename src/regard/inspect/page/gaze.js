/**
 * The numbers behind screen 2: a part's weights for all heads, those of one layer exactly, and what is seen of them
 * now.
 *
 * What is unusual: the first picture is drawn from half-precision numbers of the whole part; the exact ones of the
 * pivot's layer come after it and take their place. Long texts come layer by layer.
 * What it does not know: how any of it is drawn.
 */
import { store, partOf, partSides, rowTokens } from "./store.js";
import { groupTokens, groupOf, groupMatrix } from "./groups.js";

const AT_ONCE_BYTES = 4e6;

/**
 * What a picture is drawn from: `row` and `key` are places among rows and columns, or -1; `hidden` is the share of the
 * row that went to tokens which are left out.
 * @typedef {{rows: object[], columns: object[], values: Float32Array, max: number, row: number, key: number,
 *   measure: string, exact: boolean, hidden: number}} Gaze
 */

export class GazeData {
  #half = new Map(); // layer -> (H, T, S)
  #exact = new Map();
  #effects = new Map(); // "layer|head|row" -> S numbers
  #of = null; // the view, part and measure that these are of
  #loading = new AbortController(); // ends what is fetched of another one

  /** @param {{half: (layer: number|null) => void, exact: () => void}} arrivals told as numbers come; null: all layers */
  constructor(arrivals) {
    this.arrivals = arrivals;
  }

  /** Fetch what is seen now and is not there yet. Rejects with what the source refuses. @param {AbortSignal} leaving */
  async fetch(leaving) {
    const [view, part, measure] = [store.get("view"), partOf(store.get("model"), store.get("part")), this.measure];
    const mark = `${view.id}|${part.name}|${measure}`;
    if (this.#of !== mark) {
      this.#loading.abort();
      this.#loading = new AbortController();
      Object.assign(this, { sides: partSides(view, part), tokens: rowTokens(view, part), part });
      [this.#of, this.#half, this.#exact, this.#effects] = [mark, new Map(), new Map(), new Map()];
      try {
        await this.#fetchHalf(view, part, measure, AbortSignal.any([leaving, this.#loading.signal]));
      } catch (error) {
        if (this.#of === mark) this.#of = null; // to be tried again
        throw error;
      }
    }
    if (measure === "weights" && this.#of === mark) await this.#fetchExact(view, part, store.get("layer"), leaving);
  }

  /** What the heads are drawn by: effects are known for one row only, so the heads then show their weights. */
  get measure() {
    return store.get("measure") === "norms" ? "norms" : "weights";
  }

  async #fetchHalf(view, part, measure, signal) {
    const half = this.#half;
    const fetchOne = async (name) =>
      (await window.regard.source.tensors(view.id, [name], { dtype: "float16" }, signal)).get(name).data;
    const bytes = 2 * part.layers * part.heads * this.tokens.length * this.sides.keys.length;
    const layers = Array.from({ length: part.layers }, (_, layer) => layer);
    if (measure === "norms" || bytes <= AT_ONCE_BYTES) {
      const data = await fetchOne(`${part.name}.${measure}`);
      const size = data.length / part.layers;
      for (const layer of layers) half.set(layer, data.subarray(layer * size, (layer + 1) * size));
      this.#tell(half, null);
      return;
    }
    layers.sort((a, b) => Math.abs(a - store.get("layer")) - Math.abs(b - store.get("layer")));
    for (const layer of layers) {
      half.set(layer, await fetchOne(`${part.path.replace("{layer}", layer)}.weights`));
      this.#tell(half, layer);
    }
  }

  /** Say that something came, unless what is seen is of another run by now. */
  #tell(half, layer) {
    if (half === this.#half) this.arrivals.half(layer);
  }

  async #fetchExact(view, part, layer, signal) {
    const exact = this.#exact;
    if (exact.has(layer)) return;
    const name = `${part.path.replace("{layer}", layer)}.weights`;
    exact.set(layer, (await window.regard.source.tensors(view.id, [name], {}, signal)).get(name).data);
    if (exact === this.#exact) this.arrivals.exact();
  }

  /** The effects of the pivot's row, fetched once; false while they are not there. */
  hasEffects() {
    return this.#effects.has(this.#effectKey());
  }

  #effectKey() {
    return [store.get("layer"), store.get("heads") ? "all" : store.get("head"), store.get("row")].join("|");
  }

  async fetchEffects(signal) {
    const key = this.#effectKey();
    const [layer, head, query] = [store.get("layer"), store.get("heads") ? null : store.get("head"), store.get("row")];
    const known = this.#effects;
    const effects = await window.regard.source.edges(
      store.get("view").id,
      { part: this.part.name, layer, head, query },
      signal,
    );
    known.set(key, effects);
  }

  /** (T, S) of one head, half or exact; null while it is not there. */
  head(layer, head) {
    const all = this.#exact.get(layer) ?? this.#half.get(layer);
    const size = this.tokens.length * this.sides.keys.length;
    return all ? all.subarray(head * size, (head + 1) * size) : null;
  }

  /** (T, S) of the pivot's head, or the mean of the chosen ones. */
  #shown() {
    const chosen = store.get("heads") ?? [[store.get("layer"), store.get("head")]];
    const found = chosen.map(([layer, head]) => this.head(layer, head));
    if (!found.length || found.some((one) => one === null)) return null;
    if (found.length === 1) return found[0];
    const mean = new Float32Array(found[0].length);
    for (const one of found) for (let i = 0; i < mean.length; i++) mean[i] += one[i] / found.length;
    return mean;
  }

  groups() {
    const how = {
      join: store.get("join") && store.get("measure") !== "effects",
      hideSpecials: store.get("hideSpecials"),
    };
    const rows = groupTokens(this.tokens, {
      ...how,
      hideSpecials: how.hideSpecials && this.part.queries === this.part.keys,
    });
    return { rows, columns: groupTokens(this.sides.keys, how) };
  }

  /** The end of the scale for all thumbnails together, so that heads can be compared. */
  end() {
    if (this.measure === "weights") return 1;
    return Math.max(...[...this.#half.values()].map((data) => scaleEnd(data, "norms")));
  }

  /** One head as a thumbnail shows it: the same groups as the picture. */
  thumbnail(layer, head, { rows, columns }) {
    const data = this.head(layer, head);
    const renormalise = store.get("hideSpecials") && this.measure === "weights";
    return data && groupMatrix(data, this.sides.keys.length, rows, columns, { renormalise });
  }

  /** @returns {Gaze|null} what is seen now, or null while it is not there */
  now() {
    const effects = store.get("measure") === "effects";
    const data = effects ? this.#effectRow() : this.#shown();
    if (!data) return null;
    const { rows, columns } = this.groups();
    const width = this.sides.keys.length;
    const measure = store.get("measure");
    const values = groupMatrix(data, width, rows, columns, {
      renormalise: store.get("hideSpecials") && measure === "weights",
    });
    const row = groupOf(rows, store.get("row"));
    const key = store.get("key") === null ? -1 : groupOf(columns, store.get("key"));
    const layers = store.get("heads")?.map(([layer]) => layer) ?? [store.get("layer")];
    const exact = measure !== "norms" && layers.every((layer) => this.#exact.has(layer));
    return {
      rows,
      columns,
      values,
      max: scaleEnd(values, measure),
      row,
      key,
      measure,
      exact,
      hidden: row < 0 ? 0 : this.#hiddenShare(data, width, rows[row], columns),
    };
  }

  /** A matrix in which only the pivot's row is known. */
  #effectRow() {
    const effects = this.#effects.get(this.#effectKey());
    if (!effects) return null;
    const data = new Float32Array(this.tokens.length * this.sides.keys.length).fill(NaN);
    data.set(
      effects.map((effect) => effect ?? NaN),
      store.get("row") * this.sides.keys.length,
    );
    return data;
  }

  #hiddenShare(data, width, { members }, columns) {
    if (!store.get("hideSpecials") || store.get("measure") !== "weights") return 0;
    const kept = columns.flatMap((column) => column.members);
    const sum = members.reduce((total, i) => total + kept.reduce((part, j) => part + data[i * width + j], 0), 0);
    return Math.max(0, 1 - sum / members.length);
  }
}

/**
 * What the darkest colour and the widest line stand for: 1 for weights, else the largest; of effects at least a tenth
 * of a nat, so that nothing looks like much.
 */
function scaleEnd(values, measure) {
  if (measure === "weights") return 1;
  let most = measure === "effects" ? 0.1 : 1e-9;
  for (const value of values) if (Math.abs(value) > most) most = Math.abs(value);
  return most;
}

/** Places of a row that can be seen, the largest first, with their values. @param {Gaze} gaze */
export function lookedAt({ values, columns, row }) {
  const places = columns.map((_, c) => ({ place: c, value: values[row * columns.length + c] }));
  return sortedPlaces(places);
}

/** What may not be looked at has a weight of 0, what is not known is NaN. */
function sortedPlaces(places) {
  return places
    .filter(({ value }) => value !== 0 && !Number.isNaN(value))
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}

/** The same down a column. */
export function lookedAtBy({ values, columns, rows }, column) {
  const places = rows.map((_, r) => ({ place: r, value: values[r * columns.length + column] }));
  return sortedPlaces(places);
}
