// Builds src/orthoscope/report/viewer.js and viewer.css. The first line of the script records a hash of all sources:
// tests compare it with the sources, so that nobody needs npm to know that the bundle is theirs.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const report = new URL("../src/orthoscope/report/", import.meta.url);
const sources = ["package-lock.json", "package.json", "build.mjs", ...readdirSync("src").map((name) => `src/${name}`)].sort();
const hash = createHash("sha256");
for (const name of sources) {
  hash.update(`${name}\0`).update(readFileSync(name)).update("\0");
}
const options = { bundle: true, minify: true, legalComments: "none", charset: "ascii", write: false, target: "es2022" };
const script = await build({ ...options, entryPoints: ["src/main.ts"], format: "iife" });
const style = await build({ ...options, entryPoints: ["src/viewer.css"] });
const text = script.outputFiles[0].text;
if (/<\/script|<!--/i.test(text)) {
  throw new Error("the bundle would end the script element that holds it");
}
writeFileSync(new URL("viewer.js", report), `// orthoscope viewer, sources sha256 ${hash.digest("hex")}\n${text}`);
writeFileSync(new URL("viewer.css", report), style.outputFiles[0].text);
console.log(`viewer.js ${text.length} bytes, viewer.css ${style.outputFiles[0].text.length} bytes`);
