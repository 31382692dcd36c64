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
  const refresh = () => {
    stale = document.hidden || Boolean(document.activeElement?.closest("form"));
    if (!stale) htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "outerMorph" });
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
