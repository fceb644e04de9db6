/** The measuring of functions that the budgets rest on. */
import assert from "node:assert/strict";
import { functionsOf } from "./tree.ts";

const SAMPLE = `export function one(a: number): number {
  if (a) {
    return 1;
  }
  return 2;
}

class Thing {
  async two(
    a: { b: number },
  ): Promise<void> {
    await a;
  }
  #three = () => {
    call(
      1,
    );
  };
}

call(
  2,
);
Deno.test("four", () => {
  run();
});
function five({ a }: {
  a: number;
}) {
  return a;
}
`.split("\n");

Deno.test("tidy: functions are found and measured", () => {
  assert.deepEqual(functionsOf(SAMPLE), [
    { name: "one", lines: 6 },
    { name: "two", lines: 5 },
    { name: "arrow at line 14", lines: 5 },
    { name: "arrow at line 24", lines: 3 },
    { name: "five", lines: 5 },
  ]);
});
