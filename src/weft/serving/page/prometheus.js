// Reads the text of `GET /metrics`, in the format of Prometheus.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/**
 * The samples of each metric.
 * @returns {Map<string, Array<{labels: Map<string, string>, value: number}>>} by the metric's name
 */
export function parseMetrics(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (match === null) continue;
    const labels = new Map([...(match[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, unescaped(value)]));
    if (!samples.has(match[1])) samples.set(match[1], []);
    samples.get(match[1]).push({ labels, value: number(match[3]) });
  }
  return samples;
}

const unescaped = (value) => value.replace(/\\(.)/g, (_, sign) => (sign === "n" ? "\n" : sign));

const number = (text) => (text === "+Inf" ? Infinity : Number(text));

/** The sum of a metric over all labels. */
export const total = (samples, name) => (samples.get(name) ?? []).reduce((sum, { value }) => sum + value, 0);

/** The values of a metric by one of its labels. */
export function byLabel(samples, name, label) {
  return new Map((samples.get(name) ?? []).map(({ labels, value }) => [labels.get(label), value]));
}

/**
 * The buckets of a histogram by a label, or of all labels together (label null).
 * @returns {Map<string|null, Array<[number, number]>>} [upper bound, count up to it], ascending
 */
export function buckets(samples, name, label) {
  const histograms = new Map();
  for (const { labels, value } of samples.get(`${name}_bucket`) ?? []) {
    const key = label === null ? null : labels.get(label);
    if (!histograms.has(key)) histograms.set(key, new Map());
    const bound = number(labels.get("le"));
    histograms.get(key).set(bound, (histograms.get(key).get(bound) ?? 0) + value);
  }
  return new Map([...histograms].map(([key, counts]) => [key, [...counts].sort((a, b) => a[0] - b[0])]));
}

/**
 * A quantile, linear inside its bucket, as Prometheus estimates it.
 * @returns {{value: number, isLeast: boolean}|null} isLeast: it is beyond the last bound; null: nothing counted
 */
export function quantile(histogram, share) {
  const count = histogram?.at(-1)?.[1] ?? 0;
  if (count <= 0) return null;
  let [low, before] = [0, 0];
  for (const [bound, upTo] of histogram) {
    if (upTo >= share * count) {
      if (bound === Infinity) return { value: low, isLeast: true };
      return { value: low + (bound - low) * ((share * count - before) / (upTo - before || 1)), isLeast: false };
    }
    [low, before] = [bound, upTo];
  }
  return null;
}
