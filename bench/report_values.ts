/** The kinds of values that a report is made of. Owns no field. */
import * as v from "valibot";

export const count = v.pipe(v.number(), v.integer(), v.minValue(0));
export const finite = v.pipe(v.number(), v.finite());
export const positive = v.pipe(v.number(), v.finite(), v.minValue(0));
export const text = v.string();
export const sha256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
export const flags = v.record(text, v.boolean());
