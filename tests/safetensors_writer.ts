/** The writer that the engine has, under the name by which tests know it. */
export * from "../engine/checkpoint/safetensors_write.ts";
