// Builds react.js, vue.js and svelte.js here, from src/ and the pinned packages: see README.md.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const PACKAGES = { react: "18.3.1", "react-dom": "18.3.1", vue: "3.5.13", svelte: "5.16.0", esbuild: "0.24.2" };
const here = dirname(fileURLToPath(import.meta.url));
const work = mkdtempSync(join(tmpdir(), "frameworks-"));
writeFileSync(join(work, "package.json"), JSON.stringify({ type: "module", dependencies: PACKAGES }));
execFileSync("npm", ["install", "--no-audit", "--no-fund", "--silent"], { cwd: work, stdio: "inherit" });
cpSync(join(here, "src"), join(work, "src"), { recursive: true });
const require = createRequire(join(work, "x.js"));
const esbuild = require("esbuild");
const { compile } = await import(pathToFileURL(join(work, "node_modules/svelte/src/compiler/index.js")));

const svelte = {
  name: "svelte",
  setup: (build) => build.onLoad({ filter: /\.svelte$/ }, ({ path }) => {
    const options = { generate: "client", filename: path };
    return { contents: compile(readFileSync(path, "utf8"), options).js.code };
  }),
};
for (const name of ["react", "vue", "svelte"]) {
  await esbuild.build({
    entryPoints: [join(work, "src", `${name}.js`)],
    outfile: join(here, `${name}.js`),
    bundle: true, minify: true, format: "iife", legalComments: "eof", charset: "utf8",
    conditions: ["browser"], plugins: [svelte],
    define: {
      "process.env.NODE_ENV": '"production"', __VUE_OPTIONS_API__: "true",
      __VUE_PROD_DEVTOOLS__: "false", __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false",
    },
  });
}
