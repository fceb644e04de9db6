/** The JSON Schema of a report, from the schema that reports are checked with. Writes no file. */
import { toJsonSchema } from "valibot_json_schema";
import { REPORT_SCHEMA, reportSchema } from "./report.ts";

const DIALECT = "https://json-schema.org/draft/2020-12/schema";

/** The file's text. */
export function reportJsonSchema(): string {
  // JSON has no infinite numbers, so nothing need be said about them.
  const schema = toJsonSchema(reportSchema, {
    target: "draft-2020-12",
    typeMode: "output",
    ignoreActions: ["finite"],
  });
  return JSON.stringify({ $schema: DIALECT, title: REPORT_SCHEMA, ...schema }, null, 2) + "\n";
}

/** The published file, which a test holds against reportJsonSchema(). */
export const SCHEMA_FILE = new URL("report.schema.json", import.meta.url);
