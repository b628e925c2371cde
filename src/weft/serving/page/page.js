// Starts the page: waits until the model is ready, loads the list of tasks, and switches between the tabs.

import { BatchTab } from "./page/batch_tab.js";
import { byId, counted } from "./page/dom.js";
import { call, pause, useKey } from "./page/server.js";
import { StatusTab } from "./page/status_tab.js";
import { TryTab, errorBox } from "./page/try_tab.js";

const TABS = ["try", "batch", "status"];
const tryTab = new TryTab();
const batchTab = new BatchTab();
const statusTab = new StatusTab();
let isLoaded = false;

/** Loads the tasks; while the model is being loaded, tries again every second. */
async function load() {
  const loading = byId("loading");
  try {
    for (;;) {
      const { status } = await call("health/live").catch((wrong) => ({ status: wrong.status ? "failed" : "unreachable" }));
      if (status === "ready") break;
      loading.textContent = {
        loading: "The server is loading the model …",
        failed: "The server could not load the model; its log has the reason.",
        stopping: "The server is stopping.",
        unreachable: "The server does not answer; is it running?",
      }[status] ?? `The server is ${status}.`;
      await pause(1);
    }
    const { bundle, tasks } = await call("v1/tasks");
    byId("server").textContent = counted(tasks.length, "task");
    byId("bundle").textContent = `bundle ${bundle.slice(0, 12)}`;
    byId("bundle").title = bundle;
    tryTab.offer(tasks);
    batchTab.offer(tasks);
    loading.hidden = byId("key").hidden = true;
    isLoaded = true;
    show(tabOfAddress(), false);
  } catch (wrong) {
    if (wrong.needsKey) {
      loading.hidden = true;
      return;
    }
    loading.replaceWith(errorBox(wrong));
  }
}

/** Asks for an API key after the server has answered 401 or 403. */
document.addEventListener("weft-key", ({ detail }) => {
  byId("key-why").textContent = detail.message;
  if (!byId("key").hidden) return; // a field that is in use keeps the focus
  byId("key").hidden = false;
  byId("key-value").focus();
});
byId("key").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(byId("key-value").value.trim());
  byId("key-value").value = "";
  byId("key").hidden = true;
  load();
});

const tabOfAddress = () => (TABS.includes(location.hash.slice(1)) ? location.hash.slice(1) : TABS[0]);

/** Shows a tab. Its panel is shown once the tasks are there. */
function show(name, remember = true) {
  for (const tab of TABS) {
    const button = byId(`tab-${tab}`);
    button.setAttribute("aria-selected", String(tab === name));
    button.tabIndex = tab === name ? 0 : -1; // one stop for the tab key; arrow keys move between tabs
    byId(tab).hidden = !isLoaded || tab !== name;
  }
  if (remember) history.replaceState(null, "", `#${name}`);
  statusTab.watch(isLoaded && name === "status");
}

for (const [index, name] of TABS.entries()) {
  const button = byId(`tab-${name}`);
  button.addEventListener("click", () => show(name));
  button.addEventListener("keydown", ({ key }) => {
    const place = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: TABS.length - 1 }[key];
    if (place === undefined) return;
    const next = TABS[(place + TABS.length) % TABS.length];
    show(next);
    byId(`tab-${next}`).focus();
  });
}
window.addEventListener("hashchange", () => { if (TABS.includes(location.hash.slice(1))) show(tabOfAddress(), false); });
show(tabOfAddress(), false);
load();
