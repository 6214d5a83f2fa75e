// Tells a page which runs changed: `listen({ runs: (ids, any) => …, state: (text, kind) => … })`.
//
// The stream is closed while nobody looks at the page: browsers allow few connections to a host.
// Each stream begins with the news that any run may have changed.

import { clockTime, memory } from "/static/app.js";

export function listen({ runs, state = () => {}, run = null }) {
  let source = null;
  let stale = null; // since when nothing was heard
  let lost = null; // since when the store can't be reached
  let on = memory.get("live", "on") === "on";

  function tell() {
    if (!on) state("Paused", "off");
    else if (lost) state(`Store lost since ${clockTime(lost)}`, "lost");
    else if (stale) state(`Stale since ${clockTime(stale)}`, "lost");
    else state("Live", "on");
  }

  function open() {
    if (source || !on || document.hidden) return;
    source = new EventSource(run === null ? "/events" : `/events?run=${encodeURIComponent(run)}`);
    source.addEventListener("open", () => {
      stale = null;
      tell();
    });
    source.addEventListener("runs", (event) => {
      const { ids, any } = JSON.parse(event.data);
      runs(ids, any);
      document.dispatchEvent(new CustomEvent("holdfast:runs"));
    });
    source.addEventListener("store", (event) => {
      const { lost_since: since } = JSON.parse(event.data);
      const back = lost !== null && since === null;
      lost = since === null ? null : new Date(since);
      tell();
      if (back) runs([], true);
    });
    source.addEventListener("error", () => {
      stale ??= new Date();
      tell();
      // After an answer that is no stream, a browser does not try again by itself.
      if (source?.readyState === EventSource.CLOSED) {
        close();
        setTimeout(open, 5000);
      }
    });
  }

  function close() {
    source?.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
  tell();

  return {
    toggle() {
      on = !on;
      memory.set("live", on ? "on" : "off");
      stale = null;
      if (on) open();
      else close();
      tell();
    },
    tell,
  };
}

// A function that fetches a path and shows the text of the answer, one after the other, with at least
// so many milliseconds between two. Called meanwhile, also by `show`, it does so once more.
export function refresher(path, show, every = 0) {
  let fetching = false;
  let again = false;
  return async function refresh() {
    again = true;
    if (fetching) return;
    fetching = true;
    try {
      while (again && !document.hidden) {
        again = false;
        const answer = await fetch(path(), { headers: { "HX-Request": "true" } });
        if (!answer.ok) return;
        show(await answer.text());
        if (every) await new Promise((resolve) => setTimeout(resolve, every));
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // the network: the stream says so
    } finally {
      fetching = false;
    }
  };
}
