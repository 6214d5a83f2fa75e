/* Browsers start no workers for pages that are opened from a disk. There, the search runs in a
   hidden frame instead. (Zensical would load such a script from unpkg.com.) */
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.later((event) => this.onmessage?.(event), data);
      const script = this.inside.document.createElement("script");
      script.src = new URL(url, location.href);
      this.ready = new Promise((resolve) => (script.onload = resolve));
      this.inside.document.body.append(script);
    }

    postMessage(data) {
      this.later((event) => this.ready.then(() => this.inside.onmessage(event)), data);
    }

    /* As between threads: a copy, and never while the sender is still at work. */
    later(receive, data) {
      const event = { data: structuredClone(data) };
      setTimeout(() => receive(event));
    }

    terminate() {
      this.inside.frameElement?.remove();
    }
  };
}
