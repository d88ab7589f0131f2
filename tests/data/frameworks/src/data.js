// What all three applications do: their root says where their data is and how they route.
const root = document.getElementById("root");
export const settings = root.dataset; // data: folder of JSON; router: none, history or hash; more: count
export { root };

export function view() {
  if (settings.router === "history") return location.pathname;
  if (settings.router === "hash") return location.hash.slice(1) || "/";
  return "/index";
}

export async function load(name) {
  const answer = await fetch(settings.data + name.replace(/\/$/, "/index") + ".json");
  return answer.json();
}

// Calls add(data) for what comes when the page's end is seen, settings.more times.
export function whenEndIsSeen(end, add) {
  let n = 0;
  new IntersectionObserver(async (seen) => {
    if (seen[0].isIntersecting && n < Number(settings.more || 0)) add(await load("/more" + ++n));
  }).observe(end);
}

// A module of its own that a page asks for only when it runs.
export async function lazyText() {
  return settings.lazy ? (await import(settings.lazy)).text : "";
}
