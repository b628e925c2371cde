// Requests to the server that the page came from. Addresses are relative, so that a path prefix of a proxy works.

const STORED = "weft-api-key";

/** An error that the server reported, or that no server answered (status 0). */
export class ServerError extends Error {
  /**
   * @param {number} status the HTTP status
   * @param {object} error the field `error` of the body: code, message, where
   * @param {number|null} retryAfter seconds to wait before the next attempt
   */
  constructor(status, error, retryAfter = null) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.where = error.where ?? null;
    this.retryAfter = retryAfter;
  }

  /** Whether an API key is missing or wrong. */
  get needsKey() {
    return this.status === 401 || this.status === 403;
  }

  toString() {
    return this.where ? `${this.where}: ${this.message}` : this.message;
  }
}

/** Remembers the API key, for this browser tab only. */
export function useKey(key) {
  sessionStorage.setItem(STORED, key);
}

export const hasKey = () => sessionStorage.getItem(STORED) !== null;

/**
 * Sends a request; returns the response's body, JSON as an object and anything else as a text.
 * @param {string} path such as "v1/tasks"
 * @param {object} options body: sent as JSON by POST; signal: aborts
 */
export async function call(path, { body, signal } = {}) {
  const headers = {};
  const key = sessionStorage.getItem(STORED);
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { headers, signal, method: body === undefined ? "GET" : "POST", cache: "no-store" };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, options);
  } catch (wrong) {
    if (wrong.name === "AbortError") throw wrong;
    throw new ServerError(0, { code: "unreachable", message: "the server does not answer; is it running?" });
  }
  const text = await response.text();
  const isJson = (response.headers.get("Content-Type") ?? "").startsWith("application/json");
  const value = isJson ? parsed(text) : text;
  if (response.ok) return value;
  const error = value?.error ?? { code: "unknown", message: `the server answered with status ${response.status}` };
  const refused = new ServerError(response.status, error, seconds(response.headers.get("Retry-After")));
  if (refused.needsKey) document.dispatchEvent(new CustomEvent("weft-key", { detail: refused }));
  throw refused;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function seconds(header) {
  return header !== null && /^\d+$/.test(header) ? Number(header) : null;
}

/** Waits; rejects with an AbortError if the signal aborts. */
export function pause(wait, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => { clearTimeout(timer); reject(new DOMException("cancelled", "AbortError")); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", stop); resolve(); }, 1000 * wait);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });
}
