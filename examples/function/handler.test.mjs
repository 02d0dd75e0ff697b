// node --test examples/function/handler.test.mjs, with COMPORTA_BIN naming the binary to test against.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { ask, limited } from "./handler.mjs";

const BINARY = process.env.COMPORTA_BIN;
const POLICY = `
domain: api
plans:
  free: {requests_per_unit: 2, unit: hour, burst: 2}
descriptors:
  - key: tenant
    plan: free
    tenants:
      vip: {unlimited: true}
`;

// Long enough for a busy test machine; the handler's own default is for production.
const PATIENT = { timeoutMs: 5000 };

let folder;
let comporta;
let url;

/** A server on a free port of the loopback. What it accepts is never answered. */
async function listen() {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

/** An address that nothing listens on. */
async function freeAddress() {
  const server = await listen();
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return `127.0.0.1:${port}`;
}

async function start() {
  const [grpc, http, admin] = [await freeAddress(), await freeAddress(), await freeAddress()];
  const policy = join(folder, "policy.yaml");
  await writeFile(policy, POLICY);
  const flags = ["--policy", policy, "--grpc-addr", grpc, "--http-addr", http, "--admin-addr", admin];
  // No setting but these flags.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("COMPORTA_")));
  const child = spawn(BINARY, ["serve", ...flags], { env, stdio: ["ignore", "ignore", "inherit"] });
  child.once("error", (error) => assert.fail(`${BINARY} does not start: ${error.message}`));
  for (let tries = 0; tries < 500; tries += 1) {
    assert.equal(child.exitCode, null, "comporta ended before it was ready");
    const ready = await fetch(`http://${http}/readyz`).then((response) => response.ok, () => false);
    if (ready) return [child, `http://${http}`];
    await sleep(20);
  }
  child.kill();
  return assert.fail("comporta is not ready");
}

before(async () => {
  assert.ok(BINARY, "set COMPORTA_BIN to the binary, such as target/debug/comporta");
  folder = await mkdtemp(join(tmpdir(), "comporta-function-"));
  [comporta, url] = await start();
});

after(async () => {
  if (comporta) {
    const ended = once(comporta, "exit");
    comporta.kill("SIGKILL");
    await ended;
  }
  if (folder) await rm(folder, { recursive: true });
});

const work = () => new Response("done\n");

function requestOf(tenant) {
  return new Request("http://function.test/", tenant === undefined ? {} : { headers: { "x-tenant": tenant } });
}

test("a tenant within its limit is served, and then told when to come back", async () => {
  const handler = limited(work, { url, whenAway: "refuse", ...PATIENT });
  for (const expected of [200, 200]) {
    assert.equal((await handler(requestOf("acme"))).status, expected);
  }
  const refused = await handler(requestOf("acme"));
  assert.equal(refused.status, 429);
  // Two an hour: the next one is there after half an hour.
  const seconds = Number(refused.headers.get("retry-after"));
  assert.ok(seconds > 1700 && seconds <= 1800, `retry-after: ${seconds}`);
  assert.equal((await handler(requestOf("globex"))).status, 200, "each tenant has a limit of its own");
});

test("a tenant without a limit is always served", async () => {
  const handler = limited(work, { url, whenAway: "refuse", ...PATIENT });
  for (let count = 0; count < 10; count += 1) {
    assert.equal((await handler(requestOf("vip"))).status, 200);
  }
});

test("a request may cost more than one hit, and what does not fit takes nothing", async () => {
  const question = { url, domain: "api", entries: [["tenant", "initech"]], ...PATIENT };
  assert.equal((await ask({ ...question, hits: 3 })).allowed, false);
  assert.equal((await ask({ ...question, hits: 2 })).allowed, true);
  assert.equal((await ask({ ...question, hits: 1 })).allowed, false);
});

test("a request without a tenant is not asked about", async () => {
  const handler = limited(work, { url: "http://127.0.0.1:1", whenAway: "allow", ...PATIENT });
  assert.equal((await handler(requestOf(undefined))).status, 400);
});

test("without an answer the request passes or is refused, as was chosen", async (t) => {
  const silent = await listen();
  t.after(() => silent.close());
  const addresses = { away: `http://${await freeAddress()}`, silent: `http://127.0.0.1:${silent.address().port}` };
  for (const [name, address] of Object.entries(addresses)) {
    for (const [whenAway, status] of [["allow", 200], ["refuse", 503]]) {
      const reasons = [];
      const handler = limited(work, { url: address, whenAway, timeoutMs: 100, onAway: (error) => reasons.push(error) });
      const started = performance.now();
      assert.equal((await handler(requestOf("acme"))).status, status, `${name}, ${whenAway}`);
      assert.ok(performance.now() - started < 3000, `${name}: the timeout did not hold`);
      assert.equal(reasons.length, 1, `${name}, ${whenAway}`);
    }
  }
});

test("a question that Comporta does not understand is an error that says why", async () => {
  const question = { url, domain: "", entries: [["tenant", "acme"]], ...PATIENT };
  await assert.rejects(ask(question), /400: .*the domain is empty/);
});

test("the choice must be made", () => {
  assert.throws(() => limited(work, { url }), /whenAway must be/);
});
