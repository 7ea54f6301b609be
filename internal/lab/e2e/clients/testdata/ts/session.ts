// Starts a session, follows it, decides what codex asks for, and reads the transcript.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Entry = components["schemas"]["Entry"];

const base = process.argv[2];
if (base === undefined) throw new Error("usage: session.js URL");
const client = createClient<paths>({ baseUrl: base });

function must<T>(what: string, r: { data?: T; error?: unknown }): T {
  if (r.data === undefined) throw new Error(`${what}: ${JSON.stringify(r.error)}`);
  return r.data;
}

const start = {
  params: { header: { "Idempotency-Key": "generated-ts" } },
  body: { host: "web-1", seed: "team", message: { text: "need a command" } },
};
const started = must("start", await client.POST("/v1/sessions", start));
const again = must("start again", await client.POST("/v1/sessions", start));
const id = started.id;

// entries yields the transcript as it grows. After a broken connection it goes on.
async function* entries(): AsyncGenerator<Entry> {
  let last: string | undefined;
  for (;;) {
    const { data } = await client.GET("/v1/sessions/{id}/events", {
      params: { path: { id }, header: last === undefined ? {} : { "Last-Event-ID": last } },
      parseAs: "stream",
    });
    if (!data) throw new Error("the stream did not begin");
    let text = "";
    const decoder = new TextDecoder();
    for await (const part of data as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(part, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const event: Record<string, string> = {};
        for (const line of text.slice(0, end).split("\n")) {
          const colon = line.indexOf(": ");
          if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 2);
        }
        text = text.slice(end + 2);
        if (event["event"] === "end") return;
        if (event["event"] !== "entry" || event["data"] === undefined) continue;
        last = event["id"];
        yield JSON.parse(event["data"]) as Entry;
      }
    }
  }
}

async function approval(): Promise<components["schemas"]["Approval"]> {
  for (;;) {
    const list = must("approvals", await client.GET("/v1/approvals", { params: { query: { session: id } } }));
    const first = list.items?.[0];
    if (first) return first;
    await new Promise((done) => setTimeout(done, 200));
  }
}

let asked: components["schemas"]["Approval"] | undefined;
for await (const e of entries()) {
  if (e.type === "request" && !asked) {
    asked = await approval();
    must(
      "decide",
      await client.POST("/v1/approvals/{id}/decision", {
        params: { path: { id: asked.id } },
        body: { digest: asked.digest, outcome: "accept" },
      }),
    );
  }
  if (e.text.includes("The command said: it ran")) break;
}
if (!asked) throw new Error("codex asked for nothing");

const page = must("transcript", await client.GET("/v1/sessions/{id}/entries", { params: { path: { id } } }));
const late = await client.POST("/v1/approvals/{id}/decision", {
  params: { path: { id: asked.id } },
  body: { digest: asked.digest, outcome: "decline" },
});
must("close", await client.POST("/v1/sessions/{id}/close", { params: { path: { id } }, body: {} }));
console.log(
  JSON.stringify({
    id,
    again: again.existing && again.id === id,
    text: (page.items ?? []).map((e) => e.text).join("\n"),
    late: late.error?.kind,
  }),
);
process.exit(0);
