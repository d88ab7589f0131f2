import { createElement as h, useEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { lazyText, load, root, view, whenEndIsSeen } from "./data.js";

function App() {
  const [parts, setParts] = useState([]);
  const [lazy, setLazy] = useState("");
  const end = useRef();
  useEffect(() => {
    load(view()).then((data) => setParts([data]));
    lazyText().then(setLazy);
    whenEndIsSeen(end.current, (data) => setParts((all) => [...all, data]));
  }, []);
  return h("main", null,
    parts.map((part, n) => h("section", { key: n, style: { minHeight: 2000 } },
      h("h2", null, part.title), h("p", null, part.text),
      part.links.map((to) => h("a", { key: to, href: to }, to)))),
    h("p", null, lazy),
    h("div", { ref: end, style: { height: 9 } }));
}
createRoot(root).render(h(App));
