// Keys, and news of ended calls: everything else works without this file.
"use strict";
(() => {
  const rows = () => [...document.querySelectorAll(".call > summary, .list a.row, .tree summary")];
  const at = () => rows().indexOf(document.activeElement?.closest("summary, a.row"));

  const keys = {
    j: () => rows()[Math.min(at() + 1, rows().length - 1)]?.focus(),
    k: () => rows()[Math.max(at() - 1, 0)]?.focus(),
    o: () => document.activeElement?.closest(".call")?.querySelector("a.open")?.click(),
    "/": () => document.querySelector("#filter") ? document.querySelector("#filter").focus() : location.assign("/feed"),
    "?": () => {
      const help = document.querySelector("#help");
      help.open = !help.open;
      help.querySelector("summary").focus();
    },
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (typing && event.key === "Escape") typing.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  if (!document.querySelector("[data-live]")) return;
  let stale = false;
  const refresh = async () => {
    stale = document.hidden || Boolean(document.activeElement?.closest("form"));
    if (stale) return;
    const page = await fetch(location.href).then((answer) => answer.text(), () => ""); // the console may have ended
    const fresh = new DOMParser().parseFromString(page, "text/html").querySelector("#main");
    if (fresh) update(document.querySelector("#main"), fresh);
  };

  // update makes an element like a fresh one. Elements that stay are changed in place, so they keep focus, scroll
  // position and open. Children with a name keep their order, so those before a known one have gone.
  const update = (element, fresh) => {
    for (const { name } of [...element.attributes])
      if (name !== "open" && !fresh.hasAttribute(name)) element.removeAttribute(name);
    for (const { name, value } of fresh.attributes) element.setAttribute(name, value);
    let next = element.firstChild;
    for (const child of [...fresh.childNodes]) {
      let known = next;
      while (known && (known.nodeName !== child.nodeName || nameOf(known) !== nameOf(child)))
        known = nameOf(child) && known.nextSibling;
      if (!known) {
        element.insertBefore(child, next);
        continue;
      }
      while (next !== known) next = removed(next);
      next = known.nextSibling;
      if (known.nodeType === Node.ELEMENT_NODE) update(known, child);
      else if (known.data !== child.data) known.data = child.data;
    }
    while (next) next = removed(next);
  };

  const nameOf = (node) => node.id || node.getAttribute?.("aria-labelledby");

  const removed = (node) => {
    const next = node.nextSibling;
    node.remove();
    return next;
  };

  document.addEventListener("visibilitychange", () => stale && refresh());
  document.addEventListener("focusout", () => setTimeout(() => stale && refresh()));

  let before = false; // the news broke off, and calls may have ended meanwhile
  const news = new EventSource("/live");
  news.addEventListener("changed", refresh);
  news.addEventListener("open", () => {
    if (before) refresh();
    before = true;
  });
})();
