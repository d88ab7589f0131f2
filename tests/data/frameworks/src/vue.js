import { createApp, h } from "vue/dist/vue.runtime.esm-bundler.js";
import { lazyText, load, root, view, whenEndIsSeen } from "./data.js";

createApp({
  data: () => ({ parts: [], lazy: "" }),
  async mounted() {
    whenEndIsSeen(this.$refs.end, (data) => this.parts.push(data));
    lazyText().then((text) => { this.lazy = text; });
    this.parts.unshift(await load(view()));
  },
  render() {
    return h("main", [
      ...this.parts.map((part) => h("section", { style: "min-height: 2000px" },
        [h("h2", part.title), h("p", part.text), ...part.links.map((to) => h("a", { href: to }, to))])),
      h("p", this.lazy),
      h("div", { ref: "end", style: "height: 9px" }),
    ]);
  },
}).mount(root);
