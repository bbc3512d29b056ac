/**
 * Runs of the model: what is asked now, with the edits, and the answer put into the store.
 *
 * What is unusual: one run at a time; a new one aborts the old. Where the model is edited, the same request without
 * edits is kept beside it (`before`), so that the page can say what the edit changed.
 * What it does not know: who asks, and how anything is shown.
 */
import { store, fitPivot, pivotNow, rowTokens, partOf } from "./store.js";
import { NeedsServer } from "./source.js";

let running = new AbortController();

/**
 * Change what is asked, and run it. Edits are kept when only the way of writing changes, and dropped with a new text.
 */
export function ask(patch) {
  const request = { ...store.get("request"), ...patch };
  const sameText = JSON.stringify(request.texts) === JSON.stringify(store.get("request").texts);
  store.set({ request, ...(sameText ? {} : { edits: [], locked: false, key: null }) });
  return rerun();
}

/** Run the store's request with its edits; resolves when the store holds the answer, or says why it does not. */
export async function rerun() {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const { request, edits } = { request: store.get("request"), edits: store.get("edits") };
  store.set({ status: { kind: "busy" } });
  try {
    const before = edits.length ? await plainView(request, signal) : null;
    const view = await window.regard.source.run({ ...request, edits }, signal);
    if (signal.aborted) return;
    store.set({ view, before, status: { kind: "idle" }, ...pivotFor(view) });
  } catch (error) {
    if (!signal.aborted) fail(error);
  }
}

/** The view of the request without edits: the one that is shown, if it is that, else a run of its own. */
async function plainView(request, signal) {
  const known = [store.get("view"), store.get("before")].find(
    (view) => view && !view.edited && view.asked === JSON.stringify(request),
  );
  return (
    known ??
    window.regard.source.run({ ...request, edits: [] }, signal).catch((error) => {
      if (error instanceof NeedsServer) return null; // an exported page may hold the changed run alone
      throw error;
    })
  );
}

function pivotFor(view) {
  view.asked = view.edited ? null : JSON.stringify(store.get("request"));
  const model = store.get("model");
  const fitted = fitPivot(model, view, pivotNow());
  if (fitted.part !== null && !store.get("locked") && !store.get("edits").length)
    fitted.row = telling(rowTokens(view, partOf(model, fitted.part)));
  return fitted;
}

/** A row worth a first look: the longest token, as words of content are long. */
function telling(tokens) {
  const lengths = tokens.map((token) => (token.kind === "text" ? token.text.length : 0));
  return lengths.indexOf(Math.max(...lengths));
}

/** Replace the edits, and run. @param {object[]} edits JSON of inspect/edits.py */
export function setEdits(edits) {
  store.set({ edits });
  return rerun();
}

export function removeEdit(edit) {
  return setEdits(store.get("edits").filter((one) => JSON.stringify(one) !== JSON.stringify(edit)));
}

/** Say on the page why something did not work; a request that was given up is no error. */
export function fail(error) {
  if (error.name === "AbortError") return;
  const known =
    error instanceof NeedsServer
      ? { code: "needs-server" }
      : {
          code: error.code,
          what: error.what ?? String(error.message),
          expected: error.expected,
          got: error.got,
          mend: error.mend,
        };
  store.set({ status: { kind: "error", error: known } });
}
