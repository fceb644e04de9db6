/** SVG to PNG without a browser, with a font that comes along: text looks the same on every machine. */
import { initWasm, Resvg } from "resvg";

const FONT_FILES = [
  "roboto/400Regular/Roboto_400Regular.ttf",
  "roboto/600SemiBold/Roboto_600SemiBold.ttf",
];
/** Pixels a unit, for screens with dense pixels. */
const ZOOM = 2;

let ready: Promise<Uint8Array[]> | undefined;

/** Starts the rasteriser once and reads its fonts. */
function start(): Promise<Uint8Array[]> {
  return ready ??= (async () => {
    await initWasm(await Deno.readFile(new URL(import.meta.resolve("resvg/index_bg.wasm"))));
    return Promise.all(FONT_FILES.map((f) => Deno.readFile(new URL(import.meta.resolve(f)))));
  })();
}

/** Renders an SVG document. */
export async function renderPng(svg: string): Promise<Uint8Array> {
  const fontBuffers = await start();
  const renderer = new Resvg(svg, {
    fitTo: { mode: "zoom", value: ZOOM },
    font: { fontBuffers, defaultFontFamily: "Roboto", sansSerifFamily: "Roboto" },
  });
  const image = renderer.render();
  try {
    return image.asPng();
  } finally {
    image.free();
    renderer.free();
  }
}
