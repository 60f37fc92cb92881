// Search over pages.js, and the list of versions that lie beside this one.
const root = new URL(".", document.querySelector('script[src$="pages.js"]').src);
const search = document.getElementById("search"), found = document.getElementById("found"), version = document.getElementById("version");

search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const score = (page) => words.reduce((sum, word) => {
    const hits = page.text.toLowerCase().split(word).length - 1;
    return hits ? sum + Math.min(hits, 10) + (page.title.toLowerCase().includes(word) ? 50 : 0) : -Infinity;
  }, 0);
  const hits = words.length ? pages.map((page) => [score(page), page]).filter(([points]) => points > 0) : [];
  found.hidden = !words.length;
  found.replaceChildren(...hits.sort((a, b) => b[0] - a[0]).slice(0, 8).map(([, page]) => {
    const item = document.createElement("li"), link = document.createElement("a"), near = document.createElement("small");
    const at = page.text.toLowerCase().indexOf(words[0]);
    link.href = new URL(page.url || ".", root);
    link.textContent = page.title;
    near.textContent = "…" + page.text.slice(Math.max(0, at - 40), at + 60) + "…";
    item.append(link, near);
    return item;
  }));
});

const list = document.createElement("script");
list.src = new URL("../versions.js", root);
list.onload = () => {
  version.replaceChildren(...versions.map((name) => new Option(name, name, false, root.pathname.endsWith(`/${name}/`))));
  version.onchange = () => { location.href = new URL(`../${version.value}/`, root); };
};
document.head.append(list);
