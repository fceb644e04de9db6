/** Chat templates: where they are found, what they are given, how they refuse. */
import assert from "node:assert/strict";
import { loadChatTemplate, renderChat } from "../../engine/chat.ts";
import { UserError } from "../../engine/errors.ts";
import { tiny, tinyFiles } from "./tiny_files.ts";

const NO_TOKENS = { bos: null, eos: null, pad: null, unk: null };
const HI = [{ role: "user", content: "hi" }];

function render(
  source: string,
  request: Partial<Parameters<typeof renderChat>[1]> = {},
  tokens = NO_TOKENS as Parameters<typeof loadChatTemplate>[1],
): string {
  const template = loadChatTemplate({ chatTemplate: source }, tokens)!;
  return renderChat(template, { messages: HI, addGenerationPrompt: true, ...request });
}

Deno.test("the built-in model's template, from either file", () => {
  const expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n" +
    "<|im_start|>assistant\n";
  const messages = [{ role: "system", content: "Be brief." }, ...HI];
  for (const files of [tinyFiles, { tokenizerConfig: tinyFiles.tokenizerConfig }]) {
    const template = loadChatTemplate(files, tiny.specialTokens)!;
    assert.equal(renderChat(template, { messages, addGenerationPrompt: true }), expected);
    const closed = renderChat(template, { messages, addGenerationPrompt: false });
    assert.equal(closed + "<|im_start|>assistant\n", expected);
  }
  const ids = tiny.encode(expected, { special: false });
  assert.equal(tiny.decode(ids, { special: true }), expected);
});

Deno.test("none without a template; a named list gives its default", () => {
  assert.equal(loadChatTemplate({}, NO_TOKENS), null);
  assert.equal(loadChatTemplate({ tokenizerConfig: '{"chat_template": null}' }, NO_TOKENS), null);
  const named = (templates: unknown) =>
    loadChatTemplate({ tokenizerConfig: JSON.stringify({ chat_template: templates }) }, NO_TOKENS);
  const list = [{ name: "tool_use", template: "T" }, { name: "default", template: "D" }];
  assert.equal(named(list)?.source, "D");
  assert.equal(named({ rag: "R", default: "D" })?.source, "D");
  assert.equal(named([{ name: "only", template: "O" }])?.source, "O");
  assert.throws(() => named([list[0], { name: "rag", template: "R" }]), /none .* tool_use, rag/);
  assert.throws(() => named(7), UserError);
});

Deno.test("thinking is absent unless set, so `is defined` works", () => {
  const source =
    "{% if enable_thinking is defined %}{{ enable_thinking }}{% else %}unset{% endif %}";
  assert.equal(render(source), "unset");
  assert.equal(render(source, { enableThinking: false }).toLowerCase(), "false");
  assert.equal(render(source, { enableThinking: true }).toLowerCase(), "true");
});

Deno.test("special tokens, tools and block trimming as in transformers", () => {
  const source = "{{ bos_token }}[{{ eos_token }}]\n{% for m in messages %}\n" +
    "    {% if true %}\n{{ m.role }}\n    {% endif %}\n{% endfor %}";
  const tokens = { ...NO_TOKENS, bos: "<s>" };
  assert.equal(render(source, {}, tokens), "<s>[]\nuser\n");
  assert.equal(
    render("{% for t in tools %}{{ t | tojson }}{% endfor %}", { tools: [{ a: "é" }] }),
    '{"a": "é"}',
  );
  assert.equal(render("{% if tools %}x{% endif %}"), "");
});

Deno.test("raise_exception and strftime_now are there", () => {
  assert.throws(
    () => render("{{ raise_exception('System message must be first.\\nSorry.') }}"),
    (e: unknown) =>
      e instanceof UserError && e.message === "chat template: System message must be first. Sorry.",
  );
  assert.match(render("{{ strftime_now('%Y-%m-%d') }}"), /^\d{4}-\d\d-\d\d$/);
});

Deno.test("a broken template is refused in one line", () => {
  for (
    const source of ["{% if %}", "{{ messages[0] | nonsense }}", "{% for x in 5 %}{% endfor %}"]
  ) {
    assert.throws(
      () => render(source),
      (e: unknown) => e instanceof UserError && /^chat template: [^\n]+$/.test(e.message),
      source,
    );
  }
});
