// A serverless-style function that asks Comporta before it does its work. Plain ES modules, no dependencies; it takes a
// `Request` and returns a `Response`, which Node (from 18), Deno, Bun and most function platforms have built in.

/**
 * Whether these hits may pass.
 *
 * @param {object} question
 * @param {string} question.url         Comporta's HTTP address, such as http://127.0.0.1:8080
 * @param {string} question.domain      a domain of its policy
 * @param {[string, string][]} question.entries  the descriptor: [key, value] of each entry
 * @param {number} [question.hits]      the cost; 1 if absent
 * @param {number} [question.timeoutMs] the longest to wait for an answer
 * @returns {Promise<{allowed: boolean, resetSeconds: number}>} resetSeconds: when refused, when to try again
 * @throws when there is no usable answer: Comporta is away or slow, or the question is one that it does not understand
 */
export async function ask({ url, domain, entries, hits = 1, timeoutMs = 50 }) {
  const descriptor = {
    entries: entries.map(([key, value]) => ({ key, value })),
    hitsAddend: String(hits),
  };
  const response = await fetch(`${url}/json`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ domain, descriptors: [descriptor] }),
    signal: AbortSignal.timeout(timeoutMs),
  });
  if (response.status !== 200 && response.status !== 429) {
    throw new Error(`Comporta answered ${response.status}: ${await response.text()}`);
  }
  const answer = await response.json();
  // "12s"; null where there is no limit.
  const resetSeconds = Number.parseInt(answer.statuses[0].durationUntilReset ?? "0", 10);
  return { allowed: response.status === 200, resetSeconds };
}

/**
 * A handler that does `work` for requests that are within their tenant's limit.
 *
 * @param {(request: Request) => Response | Promise<Response>} work
 * @param {object} options
 * @param {string} options.url           as in ask
 * @param {"allow" | "refuse"} options.whenAway  what happens without an answer from Comporta
 * @param {number} [options.timeoutMs]   as in ask
 * @param {(error: Error) => void} [options.onAway]  is told why there was no answer
 * @returns {(request: Request) => Promise<Response>}
 */
export function limited(work, { url, whenAway, timeoutMs, onAway = console.error }) {
  if (whenAway !== "allow" && whenAway !== "refuse") {
    throw new TypeError('whenAway must be "allow" or "refuse"');
  }
  return async (request) => {
    const tenant = request.headers.get("x-tenant");
    if (!tenant) {
      return new Response("the header x-tenant is missing\n", { status: 400 });
    }
    let decision;
    try {
      decision = await ask({ url, domain: "api", entries: [["tenant", tenant]], timeoutMs });
    } catch (error) {
      onAway(error);
      if (whenAway === "refuse") {
        // Not 429: the client has done nothing wrong.
        return new Response("cannot tell whether this is within your limit\n", { status: 503 });
      }
      decision = { allowed: true };
    }
    if (!decision.allowed) {
      return new Response("too many requests\n", {
        status: 429,
        headers: { "retry-after": String(decision.resetSeconds) },
      });
    }
    return work(request);
  };
}
