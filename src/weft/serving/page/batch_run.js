// Sends many requests in portions. A portion that the server refuses is split, so that only bad rows fail.

import { pause } from "./server.js";

const ATTEMPTS = 5; // for a portion that got no answer: the network, a deadline
const BUSY = new Set([429, 503]);
const UNANSWERED = new Set([0, 408, 504]);

/**
 * Answers requests, in any order; each result is put at the place of its request.
 * @param {Array<{place: number, request: object}>} items
 * @param {object} options
 *   send: (requests) => promise of answers; rejects with a ServerError
 *   onAnswer: (place, {answer} or {error}) is called for each item
 *   onWait: (seconds) is called if the server is busy and the run waits
 *   signal: aborts; portion: requests per HTTP request; parallel: HTTP requests at once
 */
export async function runBatch(items, { send, onAnswer, onWait, signal, portion = 64, parallel = 2 }) {
  const portions = [];
  for (let first = 0; first < items.length; first += portion) portions.push(items.slice(first, first + portion));
  portions.reverse(); // taken from the end
  const work = async () => {
    while (portions.length) {
      const part = portions.pop();
      const again = await answerPortion(part, { send, onAnswer, onWait, signal });
      portions.push(...again.reverse());
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
}

/** Answers one portion; returns the smaller portions that have still to be sent. */
async function answerPortion(part, { send, onAnswer, onWait, signal }) {
  for (let attempt = 1; ; attempt += 1) {
    signal.throwIfAborted();
    try {
      const answers = await send(part.map(({ request }) => request));
      part.forEach(({ place }, index) => onAnswer(place, { answer: answers[index] }));
      return [];
    } catch (wrong) {
      if (wrong.status === undefined || wrong.needsKey || wrong.code === "unknown_task") throw wrong;
      if (BUSY.has(wrong.status)) {
        attempt = 0; // a busy server is waited for, however long it takes; the user can cancel
        const seconds = wrong.retryAfter ?? 2;
        onWait(seconds);
        await pause(seconds, signal);
      } else if (UNANSWERED.has(wrong.status) && attempt < ATTEMPTS) {
        onWait(attempt);
        await pause(attempt, signal);
      } else if (wrong.status === 0) {
        throw wrong;
      } else {
        return split(part, wrong, onAnswer);
      }
    }
  }
}

/** Takes out the request that the error names; if it names none, halves the portion. */
function split(part, wrong, onAnswer) {
  const named = /^requests\[(\d+)\]/.exec(wrong.where ?? "");
  const bad = part.length === 1 ? 0 : named && Number(named[1]);
  if (bad !== null && part[bad] !== undefined) {
    onAnswer(part[bad].place, { error: wrong.message });
    return [part.slice(0, bad), part.slice(bad + 1)].filter((rest) => rest.length);
  }
  const middle = part.length >> 1;
  return [part.slice(0, middle), part.slice(middle)];
}
