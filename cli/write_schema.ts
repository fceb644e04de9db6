/** Writes bench/report.schema.json, the JSON Schema that is published with the tool. Run it by itself. */
import { reportJsonSchema, SCHEMA_FILE } from "../bench/schema.ts";

await Deno.writeTextFile(SCHEMA_FILE, reportJsonSchema());
