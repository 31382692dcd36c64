// Statistics of docs/autonomy.md, and the order of texts by their bytes.

export const sum = (values) => values.reduce((a, b) => a + b, 0);
export const mean = (values) => sum(values) / values.length;
export const clamp = (x) => Math.min(1, Math.max(0, x));
export const greatest = (values) => values.reduce((a, b) => Math.max(a, b), 0);
export const allEqual = (values) => values.every((v) => v === values[0]);

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** The median of the distances from the median. */
export function mad(values) {
  const middle = median(values);
  return median(values.map((v) => Math.abs(v - middle)));
}

/** The sum of the squared distances from the mean, by their number less 1; 0 of equal values. */
export function variance(values) {
  if (values.length < 2 || allEqual(values)) return 0;
  const m = mean(values);
  return sum(values.map((v) => (v - m) ** 2)) / (values.length - 1);
}

/** R² of pairs that rise together, else 0. */
export function determination(xs, ys) {
  if (allEqual(xs) || allEqual(ys)) return 0;
  const [mx, my] = [mean(xs), mean(ys)];
  const r = sum(xs.map((x, i) => (x - mx) * (ys[i] - my))) / Math.sqrt(sum(xs.map((x) => (x - mx) ** 2)) * sum(ys.map((y) => (y - my) ** 2)));
  return r > 0 ? r * r : 0;
}

export const byBytes = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));
export const byHostAndModel = (a, b) => byBytes(a.host, b.host) || byBytes(a.model, b.model);
